"""Questions that one SELECT over the sample database answers."""

from functools import cache
from random import Random

from tasksets.draft import Draft, Wordings, solve
from tasksets.splits import members, number
from tasksets.task import Call, Split

ARRIVALS = Wordings(
    (
        "How many flights in the sample database went to {code} in month {month}?",
        "In the sample database, count the flights to {code} in month {month}.",
        "How many of the sample database's flights in month {month} had {code} as destination?",
        "By the sample database, how often did a flight go to {code} in month {month}?",
        "Give the number of flights to {code} in month {month} of the sample database.",
        "Query the sample database: how many flights in month {month} were bound for {code}?",
    ),
    (
        "Month {month} of the sample database: how often was {code} the destination of a flight?",
        "How many rows of flights has the sample database with dest {code} and month {month}?",
        "How busy was the way to {code} in month {month}, in flights of the sample database?",
    ),
)
FAR = Wordings(
    (
        "How many flights in the sample database to {code} left more than {delay} minutes late?",
        "Count flights to {code} in the sample database delayed at departure by over {delay} min.",
        "In the sample database, how many flights to {code} have a dep_delay of more than {delay}?",
        "How often did a flight to {code} start over {delay} minutes late, by the sample database?",
        "Query the sample database for the number of flights to {code} with dep_delay > {delay}.",
        "How many departures to {code} in the sample database were late by more than {delay} min?",
    ),
    (
        "Of flights to {code} in the sample database, how many had dep_delay above {delay}?",
        "How often did passengers to {code} wait over {delay} minutes, by the sample database?",
        "The sample database knows flights to {code}. How many left later than {delay} min?",
    ),
)


def draw(random: Random, split: Split) -> Draft:
    """A count of flights to one airport."""
    code = random.choice(members(destinations(), split))
    if random.random() < 0.5:
        month = random.randint(1, 12)
        condition, wordings, more = f"month = {month}", ARRIVALS, {"month": month}
    else:
        delay = number(random, split, 10, 120)
        condition, wordings, more = f"dep_delay > {delay}", FAR, {"delay": delay}
    flights = f"SELECT count(*) FROM flights WHERE dest = '{code}'"  # noqa: S608 our own code
    call = select(f"{flights} AND {condition}")
    parameters = {"expected": solve(call)["rows"][0][0]}
    return Draft(wordings, {"code": code, **more}, "numeric", parameters, (call,))


@cache
def destinations() -> tuple[str, ...]:
    """Airports that many flights went to, in order."""
    call = select(
        "SELECT dest FROM flights GROUP BY dest HAVING count(*) > 300 ORDER BY count(*) DESC"
    )
    return tuple(row[0] for row in solve(call)["rows"])


def select(statement: str) -> Call:
    """A question to the sample database."""
    return Call("query_database", {"sql": statement})
