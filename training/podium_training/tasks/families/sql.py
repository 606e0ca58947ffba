"""Questions that one SELECT over the sample database answers."""

from functools import cache
from random import Random

from podium_training.tasks.draft import Draft, Phrasings, solve
from podium_training.tasks.splits import members, number
from podium_training.tasks.task import Call, Split

ARRIVALS = Phrasings(
    (
        "How many flights in the sample database went to {code} in month {month}?",
        "In the sample database, count the flights to {code} in month {month}.",
        "How many of the sample database's flights in month {month} had {code} as destination?",
        "By the sample database, how often did a flight go to {code} in month {month}?",
        "Give the number of flights to {code} in month {month} of the sample database.",
        "Query the sample database: how many flights in month {month} were bound for {code}?",
        "Tell me how many flights of month {month} in the sample database went to {code}.",
        "Month {month} of the sample database: how many flights to {code} are there?",
        "Look up in the sample database how many flights month {month} had to {code}.",
        "With dest {code} and month {month}, how many flights has the sample database?",
    ),
    (
        "Month {month} of the sample database: how often was {code} the destination of a flight?",
        "How many rows of flights has the sample database with dest {code} and month {month}?",
        "How busy was the way to {code} in month {month}, in flights of the sample database?",
    ),
)
FAR = Phrasings(
    (
        "How many flights in the sample database to {code} left more than {delay} minutes late?",
        "Count flights to {code} in the sample database delayed at departure by over {delay} min.",
        "In the sample database, how many flights to {code} have a dep_delay of more than {delay}?",
        "How often did a flight to {code} start over {delay} minutes late, by the sample database?",
        "Query the sample database for the number of flights to {code} with dep_delay > {delay}.",
        "How many departures to {code} in the sample database were late by more than {delay} min?",
        "Tell me how many flights to {code} in the sample database were over {delay} minutes late.",
        "Flights to {code} with a departure delay above {delay}: how many has the sample database?",
        "Look up in the sample database how many flights to {code} left over {delay} min late.",
        "In the sample database, for how many flights to {code} is dep_delay above {delay}?",
    ),
    (
        "Of flights to {code} in the sample database, how many had dep_delay above {delay}?",
        "How often did passengers to {code} wait over {delay} minutes, by the sample database?",
        "The sample database knows flights to {code}. How many left later than {delay} min?",
    ),
)

ALL = Phrasings(
    (
        "How many flights in the sample database went to {code}?",
        "Count the sample database's flights to {code}.",
        "By the sample database, how many flights had {code} as destination?",
        "Query the sample database for the number of flights bound for {code}.",
        "Tell me how many flights to {code} the sample database has.",
        "Flights to {code}: how many are in the sample database?",
        "Look up in the sample database how many flights had dest {code}.",
        "In the sample database, what is the number of flights to {code}?",
        "How often did a flight go to {code}, by the sample database?",
    ),
    (
        "How often was {code} the destination of a flight, by the sample database?",
        "How many rows of flights with dest {code} has the sample database?",
    ),
)
LATE = Phrasings(
    (
        "What was the mean departure delay of flights to {code} in month {month} in the sample"
        " database? Two decimals.",
        "In the sample database, how many minutes late did flights to {code} leave on average in"
        " month {month}? Two decimals.",
        "Give the average dep_delay of the sample database's flights to {code} in month {month}."
        " Two decimals.",
        "Tell me the average departure delay of flights to {code} in month {month} of the sample"
        " database. Two decimals.",
        "What is the mean of dep_delay for flights to {code} in month {month}, by the sample"
        " database? Two decimals.",
        "Look up in the sample database how many minutes late flights to {code} left on average in"
        " month {month}. Two decimals.",
    ),
    (
        "By how many minutes, on average, were month {month}'s departures to {code} late in the"
        " sample database? Two decimals.",
        "Month {month} of the sample database: what is the mean dep_delay to {code}? Two decimals.",
    ),
)


def draw(random: Random, split: Split) -> Draft:
    """A count of flights to one airport, or how late they left."""
    code = random.choice(members(destinations(), split))
    month, delay = random.randint(1, 12), number(random, split, 10, 120)
    asked, phrasings, condition = random.choice(
        (
            ("count(*)", ALL, ""),
            ("count(*)", ARRIVALS, f" AND month = {month}"),
            ("count(*)", FAR, f" AND dep_delay > {delay}"),
            ("round(avg(dep_delay), 2)", LATE, f" AND month = {month}"),
        )
    )
    call = select(f"SELECT {asked} FROM flights WHERE dest = '{code}'{condition}")  # noqa: S608
    expected = solve(call)["rows"][0][0]
    if expected is None:
        # Nothing flew there in that month, so nothing was late.
        return draw(random, split)
    parameters = {"expected": expected}
    entities = {"code": code, "month": month, "delay": delay}
    return Draft(phrasings, entities, "numeric", parameters, (call,))


@cache
def destinations() -> tuple[str, ...]:
    """Airports that many flights went to, in order."""
    call = select(
        "SELECT dest FROM flights GROUP BY dest HAVING count(*) > 300 ORDER BY count(*) DESC"
    )
    return tuple(row[0] for row in solve(call)["rows"])


def select(statement: str) -> Call:
    return Call("query_database", {"sql": statement})
