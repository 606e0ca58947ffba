"""Questions that one SELECT over the sample database answers."""

from calendar import month_name
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from podium_training.tasks.draft import Draft, solve
from podium_training.tasks.splits import members, number
from podium_training.tasks.task import Call, Split

PLANES_MIN = 2


@dataclass(frozen=True)
class Query:
    """A kind's statement, with the slots of its question and their places in it."""

    statement: str
    slots: tuple[str, ...]
    verifier: str = "numeric"


def draw(random: Random, split: Split) -> Draft:
    kind, query = random.choice(list(QUERIES.items()))
    drawn: dict[str, Any] = {slot: DRAWN[slot](random, split) for slot in query.slots}
    call = select(query.statement.format(**drawn))
    expected = solve(call)["rows"][0][0]
    if expected is None:
        # Nothing flew there in that month, so nothing was late.
        return draw(random, split)
    # A month has a number in the statement and may have its name in the question.
    entities = drawn | {"month": month_name[drawn["month"]]} if kind == "mean_delay_from" else drawn
    return Draft(kind, entities, query.verifier, {"expected": expected}, (call,))


def select(statement: str) -> Call:
    return Call("query_database", {"sql": statement})


def _column(statement: str) -> tuple[str, ...]:
    return tuple(row[0] for row in solve(select(statement))["rows"])


@cache
def destinations() -> tuple[str, ...]:
    """Airports that many flights went to, in order."""
    return _column(
        "SELECT dest FROM flights GROUP BY dest HAVING count(*) > 300 ORDER BY count(*) DESC"
    )


@cache
def _carriers() -> tuple[str, ...]:
    return _column("SELECT carrier FROM airlines ORDER BY carrier")


@cache
def _manufacturers() -> tuple[str, ...]:
    return _column(
        "SELECT manufacturer FROM planes WHERE manufacturer IS NOT NULL GROUP BY manufacturer "  # noqa: S608
        f"HAVING count(*) >= {PLANES_MIN} ORDER BY manufacturer"
    )


def _of(names: Callable[[], Sequence[str]]) -> Callable[[Random, Split], str]:
    return lambda random, split: random.choice(members(names(), split))


DRAWN: dict[str, Callable[[Random, Split], str | int]] = {
    "code": _of(destinations),
    "carrier": _of(_carriers),
    "manufacturer": _of(_manufacturers),
    # Three airports are too few to split, and twelve months, too.
    "origin": lambda random, split: random.choice(("EWR", "JFK", "LGA")),
    "month": lambda random, split: random.randint(1, 12),
    "delay": lambda random, split: number(random, split, 10, 120),
}
_COUNT = "SELECT count(*) FROM flights WHERE"
_MEAN = "SELECT round(avg(dep_delay), 2) FROM flights WHERE"
QUERIES = {
    "flights": Query(f"{_COUNT} dest = '{{code}}'", ("code",)),
    "flights_in_month": Query(
        f"{_COUNT} dest = '{{code}}' AND month = {{month}}", ("code", "month")
    ),
    "late_flights": Query(
        f"{_COUNT} dest = '{{code}}' AND dep_delay > {{delay}}", ("code", "delay")
    ),
    "mean_delay": Query(f"{_MEAN} dest = '{{code}}' AND month = {{month}}", ("code", "month")),
    "flights_from": Query(
        f"{_COUNT} origin = '{{origin}}' AND dest = '{{code}}'", ("origin", "code")
    ),
    "mean_delay_from": Query(
        f"{_MEAN} origin = '{{origin}}' AND month = {{month}}", ("origin", "month")
    ),
    "airline_name": Query(
        "SELECT name FROM airlines WHERE carrier = '{carrier}'", ("carrier",), "contains"
    ),
    "top_airline": Query(
        "SELECT a.name, count(*) AS n FROM flights f JOIN airlines a USING (carrier) "
        "WHERE dest = '{code}' GROUP BY a.name ORDER BY n DESC LIMIT 1",
        ("code",),
        "contains",
    ),
    "planes_by": Query(
        "SELECT count(*) FROM planes WHERE manufacturer = '{manufacturer}'", ("manufacturer",)
    ),
}
