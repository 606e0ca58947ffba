from calendar import month_name
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from podium_training.tasks.draft import Draft, solve
from podium_training.tasks.splits import drawn, members, number
from podium_training.tasks.task import Call, Split

PLANES_MIN = 2
CITIES_MIN = 5
# The share of questions that name an airport beside its code.
AIRPORTS_BY_NAME = 0.3
MONTHS_BY_NAME = ("mean_delay_from", "top_airline_from")
TABLES = ("airlines", "airports", "planes", "countries", "cities", "flights")
COLUMNS = {
    "dest": "destination",
    "origin": "departure airport",
    "tailnum": "plane (by tail number)",
}


@dataclass(frozen=True)
class Query:
    statement: str
    slots: tuple[str, ...]
    verifier: str = "numeric"


def draw(random: Random, split: Split) -> Draft:
    kind, query = random.choice(list(QUERIES.items()))
    values: dict[str, Any] = {slot: DRAWN[slot](random, split) for slot in query.slots}
    call = select(query.statement.format(**values))
    expected = solve(call)["rows"][0][0]
    # Nothing flew there in that month, so nothing was late; or two come first.
    if expected is None or _tied(call):
        return draw(random, split)
    entities = {slot: _written(random, kind, slot, value) for slot, value in values.items()}
    return Draft(kind, entities, query.verifier, {"expected": expected}, (call,))


def _tied(call: Call) -> bool:
    """Returns whether the first two rows have one count, so that either may be the answer."""
    statement: str = call.arguments["sql"]
    if not statement.endswith(" n DESC LIMIT 1"):
        return False
    counts = [row[1] for row in solve(select(statement.replace("LIMIT 1", "LIMIT 2")))["rows"]]
    return len(set(counts)) < len(counts)


def _written(random: Random, kind: str, slot: str, value: Any) -> Any:
    """Writes a value as the question does; statements hold numbers of months, and codes."""
    if slot == "month" and kind in MONTHS_BY_NAME:
        return month_name[value]
    if slot == "thing":
        return COLUMNS[value]
    if slot == "code" and value in _airports() and random.random() < AIRPORTS_BY_NAME:
        return f"{_airports()[value]} ({value})"
    return value


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
def _airports() -> dict[str, str]:
    named = "SELECT faa, name FROM airports WHERE faa IN (SELECT dest FROM flights) ORDER BY faa"
    return dict(solve(select(named))["rows"])


@cache
def _country_codes() -> tuple[str, ...]:
    return _column(
        "SELECT country_code FROM cities GROUP BY country_code "  # noqa: S608
        f"HAVING count(*) >= {CITIES_MIN} ORDER BY count(*) DESC, country_code"
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
    "country_code": _of(_country_codes),
    # Three airports are too few to split; so are months, years, tables and columns.
    "origin": lambda random, split: random.choice(("EWR", "JFK", "LGA")),
    "month": lambda random, split: random.randint(1, 12),
    "year": lambda random, split: random.randint(1985, 2013),
    "things": lambda random, split: random.choice(TABLES),
    "thing": lambda random, split: random.choice(list(COLUMNS)),
    "delay": lambda random, split: number(random, split, 10, 120),
    "people": lambda random, split: drawn(lambda: random.randint(2, 90) * 100_000, split),
}
_COUNT = "SELECT count(*) FROM flights WHERE"
_MEAN = "SELECT round(avg(dep_delay), 2) FROM flights WHERE"
_AIRLINES = "SELECT a.name, count(*) AS n FROM flights f JOIN airlines a USING (carrier)"
_MOST = "GROUP BY a.name ORDER BY n DESC LIMIT 1"
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
    "top_airline": Query(f"{_AIRLINES} WHERE dest = '{{code}}' {_MOST}", ("code",), "contains"),
    "planes_by": Query(
        "SELECT count(*) FROM planes WHERE manufacturer = '{manufacturer}'", ("manufacturer",)
    ),
    "rows_of": Query("SELECT count(*) FROM {things}", ("things",)),
    "flights_by_carrier": Query(f"{_COUNT} carrier = '{{carrier}}'", ("carrier",)),
    "longest_by_carrier": Query(
        "SELECT max(distance) FROM flights WHERE carrier = '{carrier}'", ("carrier",)
    ),
    "top_destination": Query(
        "SELECT dest, count(*) AS n FROM flights WHERE carrier = '{carrier}' "
        "GROUP BY dest ORDER BY n DESC LIMIT 1",
        ("carrier",),
        "contains",
    ),
    "top_of_all": Query(
        "SELECT {thing}, count(*) AS n FROM flights WHERE {thing} IS NOT NULL "
        "GROUP BY {thing} ORDER BY n DESC LIMIT 1",
        ("thing",),
        "contains",
    ),
    "top_airline_from": Query(
        f"{_AIRLINES} WHERE origin = '{{origin}}' AND month = {{month}} {_MOST}",
        ("origin", "month"),
        "contains",
    ),
    "late_airline": Query(
        f"{_AIRLINES} WHERE dep_delay > {{delay}} {_MOST}", ("delay",), "contains"
    ),
    "top_model": Query(
        "SELECT model, count(*) AS n FROM planes WHERE manufacturer = '{manufacturer}' "
        "GROUP BY model ORDER BY n DESC LIMIT 1",
        ("manufacturer",),
        "contains",
    ),
    "planes_of_year": Query("SELECT count(*) FROM planes WHERE year = {year}", ("year",)),
    "cities_over": Query("SELECT count(*) FROM cities WHERE population > {people}", ("people",)),
    "largest_city": Query(
        "SELECT name FROM cities WHERE country_code = '{country_code}' "
        "ORDER BY population DESC LIMIT 1",
        ("country_code",),
        "contains",
    ),
}
