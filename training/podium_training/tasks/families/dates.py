from datetime import date, timedelta
from random import Random
from typing import Any

from podium_training.tasks.draft import Draft, solve
from podium_training.tasks.splits import drawn, number
from podium_training.tasks.task import Call, Split

FIRST, DAYS = date(1900, 1, 1), 55_000
SUFFIXES = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}
# Of a date: what the tool reports, and the verifier for it.
OF_DAY = {
    "weekday": ("weekday", "contains"),
    "day_of_year": ("day_of_year", "numeric"),
    "week_number": ("iso_week", "numeric"),
}
# Of a date and a span: how the span is written in the call, and what the tool reports.
OF_SPAN = {
    "later": ("{span}", "date"),
    "earlier": ("{span} before", "date"),
    "later_weekday": ("{span}", "weekday"),
}
# Of two dates.
OF_TWO = {"days_between": ("start", "end", "days"), "age": ("birth", "day", "years")}


def draw(random: Random, split: Split) -> Draft:
    kind = random.choice((*OF_DAY, *OF_SPAN, *OF_TWO))
    if kind in OF_DAY:
        return _of_day(kind, written(random, a_day(random, split)))
    if kind in OF_SPAN:
        return _of_span(kind, written(random, a_day(random, split)), a_span(random, split))
    return _of_two(kind, random, split)


def _of_day(kind: str, day: str) -> Draft:
    call = Call("day_of_week", {"day": day})
    found, verifier = OF_DAY[kind]
    return _draft(kind, {"day": day}, verifier, call, found)


def _of_span(kind: str, start: str, span: str) -> Draft:
    duration, found = OF_SPAN[kind]
    call = Call("add_to_date", {"start": start, "duration": duration.format(span=span)})
    return _draft(kind, {"start": start, "span": span}, "contains", call, found)


def _of_two(kind: str, random: Random, split: Split) -> Draft:
    first, second, found = OF_TWO[kind]
    days = sorted(a_day(random, split) for _ in range(2))
    start, end = (written(random, day) for day in days)
    call = Call("days_between", {"start": start, "end": end})
    return _draft(kind, {first: start, second: end}, "numeric", call, found)


def _draft(kind: str, entities: dict[str, str], verifier: str, call: Call, found: str) -> Draft:
    expected: Any = solve(call)[found]
    return Draft(kind, entities, verifier, {"expected": expected}, (call,))


def a_day(random: Random, split: Split) -> date:
    return drawn(lambda: FIRST + timedelta(days=random.randrange(DAYS)), split)


def a_span(random: Random, split: Split) -> str:
    """90 days, 3 weeks, or 18 months and 10 days."""
    form = random.choice(("{days} days", "{weeks} weeks", "{months} months", "{years} years"))
    if random.random() < 0.3:
        form = random.choice(("{months} months and {rest} days", "{years} years and {less} months"))
    return form.format(
        days=number(random, split, 10, random.choice((90, 3000))),
        weeks=number(random, split, 2, 60),
        months=number(random, split, 2, 60),
        years=number(random, split, 2, 80),
        rest=number(random, split, 2, 28),
        less=number(random, split, 2, 11),
    )


def written(random: Random, day: date) -> str:
    return random.choice(ways(day))


def ways(day: date) -> tuple[str, ...]:
    """Usual ways to write a day, none of which can mean another one."""
    ordinal = f"{day.day}{SUFFIXES.get(day.day, 'th')}"
    return (
        f"{day.day} {day:%B} {day.year}",
        f"{day.day} {day:%B} {day.year}",
        f"{day:%B} {day.day}, {day.year}",
        f"{day.isoformat()}",
        f"{day.day} {day:%b} {day.year}",
        f"{ordinal} {day:%B} {day.year}",
        f"{day:%B} {ordinal}, {day.year}",
        f"{day:%d.%m.%Y}",
    )
