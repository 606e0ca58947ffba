"""Questions that one SELECT over the sample database answers."""

from functools import cache
from random import Random

from podium_training.tasks.draft import Draft, solve
from podium_training.tasks.splits import members, number
from podium_training.tasks.task import Call, Split


def draw(random: Random, split: Split) -> Draft:
    """A count of flights to one airport, or how late they left."""
    code = random.choice(members(destinations(), split))
    month, delay = random.randint(1, 12), number(random, split, 10, 120)
    asked, kind, condition = random.choice(
        (
            ("count(*)", "flights", ""),
            ("count(*)", "flights_in_month", f" AND month = {month}"),
            ("count(*)", "late_flights", f" AND dep_delay > {delay}"),
            ("round(avg(dep_delay), 2)", "mean_delay", f" AND month = {month}"),
        )
    )
    call = select(f"SELECT {asked} FROM flights WHERE dest = '{code}'{condition}")  # noqa: S608
    expected = solve(call)["rows"][0][0]
    if expected is None:
        # Nothing flew there in that month, so nothing was late.
        return draw(random, split)
    parameters = {"expected": expected}
    entities = {"code": code, "month": month, "delay": delay}
    return Draft(kind, entities, "numeric", parameters, (call,))


@cache
def destinations() -> tuple[str, ...]:
    """Airports that many flights went to, in order."""
    call = select(
        "SELECT dest FROM flights GROUP BY dest HAVING count(*) > 300 ORDER BY count(*) DESC"
    )
    return tuple(row[0] for row in solve(call)["rows"])


def select(statement: str) -> Call:
    return Call("query_database", {"sql": statement})
