from functools import cache
from pathlib import Path
from random import Random

import yaml

from podium_training.tasks.draft import Draft
from podium_training.tasks.families.dictionary import a_plain_word, definition
from podium_training.tasks.families.facts import large_cities
from podium_training.tasks.splits import members, number
from podium_training.tasks.task import Split

# Verifiers pass over articles, and "not" is in answers that know nothing.
FIRST_LETTERS_MIN = 4
STORIES = {"stated_place": "place", "stated_job": "job"}


def draw(random: Random, split: Split) -> Draft:
    kind = random.choice(
        ("greet", "repeat", "first_word", "stated_number", "which_larger", *STORIES)
    )
    name = _one("names", random, split)
    if kind == "greet":
        return _draft(kind, ["hello", name], name=name)
    if kind in STORIES:
        city = random.choice(members(large_cities(), split))
        story = {"name": name, "place": city, "job": _one("jobs", random, split)}
        return _draft(kind, story[STORIES[kind]], **story)
    if kind in ("repeat", "first_word"):
        text = a_text(random, split)
        while len(text.split()[0]) < FIRST_LETTERS_MIN:
            text = a_text(random, split)
        return _draft(kind, text if kind == "repeat" else text.split()[0], text=text)
    a, b = number(random, split, 2, 99), number(random, split, 100, 99_999)
    if kind == "stated_number":
        thing = _one("things", random, split)
        return _draft(kind, a, name=name, count=a, thing=thing)
    first, second = random.sample((a, b), 2)
    return _draft(kind, max(a, b), a=first, b=second)


def a_text(random: Random, split: Split) -> str:
    return definition(a_plain_word(random, split))


def _draft(kind: str, expected: str | int | list[str], **entities: str | int) -> Draft:
    verifier = "numeric" if isinstance(expected, int) else "contains"
    return Draft(kind, entities, verifier, {"expected": expected})


def _one(of: str, random: Random, split: Split) -> str:
    return random.choice(members(_people()[of], split))


@cache
def _people() -> dict[str, list[str]]:
    found = yaml.safe_load(Path(__file__).parents[1].joinpath("people.yaml").read_text("utf-8"))
    return dict(found)
