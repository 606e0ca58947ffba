"""Days of the calendar."""

from datetime import date, timedelta
from random import Random

from podium_training.tasks.draft import Draft, solve
from podium_training.tasks.splits import drawn, number
from podium_training.tasks.task import Call, Split

FIRST, DAYS = date(1950, 1, 1), 36_500


def draw(random: Random, split: Split) -> Draft:
    """A span, a weekday or a later date."""
    start = a_day(random, split)
    return random.choice((_between, _weekday, _later, _months_later))(random, split, start)


def _between(random: Random, split: Split, start: date) -> Draft:
    start, end = sorted((start, a_day(random, split)))
    call = Call("days_between", {"start": str(start), "end": str(end)})
    parameters = {"expected": solve(call)["days"]}
    entities = {"start": written(random, start), "end": written(random, end)}
    return Draft("days_between", entities, "numeric", parameters, (call,))


def _weekday(random: Random, split: Split, start: date) -> Draft:
    call = Call("day_of_week", {"day": str(start)})
    parameters = {"expected": solve(call)["weekday"]}
    return Draft("weekday", {"day": written(random, start)}, "contains", parameters, (call,))


def _later(random: Random, split: Split, start: date) -> Draft:
    days = number(random, split, 30, 3000)
    call = Call("add_to_date", {"start": str(start), "days": days})
    parameters = {"expected": solve(call)["date"]}
    entities = {"start": written(random, start), "days": days}
    return Draft("days_later", entities, "contains", parameters, (call,))


def _months_later(random: Random, split: Split, start: date) -> Draft:
    more = {"months": number(random, split, 2, 60), "days": number(random, split, 2, 28)}
    call = Call("add_to_date", {"start": str(start), **more})
    parameters = {"expected": solve(call)["date"]}
    entities = {"start": written(random, start), **more}
    return Draft("months_later", entities, "contains", parameters, (call,))


def a_day(random: Random, split: Split) -> date:
    return drawn(lambda: FIRST + timedelta(days=random.randrange(DAYS)), split)


def written(random: Random, day: date) -> str:
    """A day as people write it, or as tools want it."""
    return random.choice((f"{day.day} {day:%B} {day.year}", str(day)))
