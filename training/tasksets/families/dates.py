"""Days of the calendar."""

from datetime import date, timedelta
from random import Random

from tasksets.draft import Draft, Wordings, solve
from tasksets.splits import drawn, number
from tasksets.task import Call, Split

FIRST, DAYS = date(1950, 1, 1), 36_500
BETWEEN = Wordings(
    ("How many days lie between {start} and {end}?", "Count the days from {start} to {end}."),
    ("A loan runs from {start} until {end}. For how many days is that?",),
)
WEEKDAY = Wordings(
    ("On which day of the week falls {start}?", "Which weekday is {start}?"),
    ("Somebody was born on {start}. Name the weekday of the birth.",),
)
LATER = Wordings(
    (
        "Which date is {days} days after {start}? Answer as YYYY-MM-DD.",
        "Add {days} days to {start}. Answer as YYYY-MM-DD.",
    ),
    ("A permit of {days} days begins on {start}. When does it lapse? Answer as YYYY-MM-DD.",),
)


def draw(random: Random, split: Split) -> Draft:
    """A span, a weekday or a later date."""
    start = a_day(random, split)
    return random.choice((_between, _weekday, _later))(random, split, start)


def _between(random: Random, split: Split, start: date) -> Draft:
    start, end = sorted((start, a_day(random, split)))
    call = Call("days_between", {"start": str(start), "end": str(end)})
    parameters = {"expected": solve(call)["days"]}
    return Draft(BETWEEN, {"start": start, "end": end}, "numeric", parameters, (call,))


def _weekday(random: Random, split: Split, start: date) -> Draft:
    call = Call("day_of_week", {"day": str(start)})
    parameters = {"expected": solve(call)["weekday"]}
    return Draft(WEEKDAY, {"start": start}, "contains", parameters, (call,))


def _later(random: Random, split: Split, start: date) -> Draft:
    days = number(random, split, 30, 3000)
    call = Call("add_to_date", {"start": str(start), "days": days})
    parameters = {"expected": solve(call)["date"]}
    return Draft(LATER, {"start": start, "days": days}, "contains", parameters, (call,))


def a_day(random: Random, split: Split) -> date:
    """A day of the split."""
    return drawn(lambda: FIRST + timedelta(days=random.randrange(DAYS)), split)
