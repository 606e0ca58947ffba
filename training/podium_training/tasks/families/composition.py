"""Two and three steps: each needs what the one before it found."""

from random import Random

from podium_training.tasks.draft import Draft, Phrasings, solve
from podium_training.tasks.families.dates import a_day, written
from podium_training.tasks.families.facts import large_airports, large_countries
from podium_training.tasks.families.retrieval import search
from podium_training.tasks.families.sql import destinations, select
from podium_training.tasks.families.units import plain
from podium_training.tasks.library import Product, products
from podium_training.tasks.splits import members, number, split_of
from podium_training.tasks.task import Call, Split

ORDER = Phrasings(
    (
        "What do {count} pieces of the Larkfield {product} cost together, in euros?",
        "How many euros are {count} of the Larkfield {product}?",
        "We order {count} Larkfield {product} devices. How many euros do we pay?",
        "What is the total price of {count} units of the Larkfield {product}, in euros?",
        "A lab needs {count} of Larkfield's {product}. How many euros must it plan for?",
        "Tell me the price of {count} Larkfield {product}, in euros altogether.",
        "{count} times the Larkfield {product}: how many euros?",
        "Calculate what {count} of the {product} by Larkfield cost, in euros.",
        "A school orders {count} pieces of Larkfield's {product}. What is the bill in euros?",
        "For {count} Larkfield {product}, how many euros are due?",
        "Look up the price of a Larkfield {product} and say what {count} cost, in euros.",
    ),
    (
        "A school buys {count} Larkfield {product} devices. What is the bill in euros?",
        "How much money, in euros, do {count} Larkfield {product} devices come to?",
    ),
)
WARRANTY_END = Phrasings(
    (
        "A Larkfield {product} was bought on {start}. On which date does its warranty end?"
        " Answer as YYYY-MM-DD.",
        "Bought on {start}: until when is a Larkfield {product} under warranty? As YYYY-MM-DD.",
        "I got my Larkfield {product} on {start}. When does the warranty end? As YYYY-MM-DD.",
        "When does the warranty of a Larkfield {product} sold on {start} run out? As YYYY-MM-DD.",
        "From {start} on, how long is a Larkfield {product} under warranty? Date as YYYY-MM-DD.",
        "Tell me until which date a Larkfield {product} of {start} has warranty. As YYYY-MM-DD.",
        "A Larkfield {product}, bought {start}: when does its warranty expire? As YYYY-MM-DD.",
        "Calculate the last date of warranty of a Larkfield {product} sold on {start}. As"
        " YYYY-MM-DD.",
        "We took a Larkfield {product} home on {start}. Until when is it covered? As YYYY-MM-DD.",
        "The receipt for a Larkfield {product} says {start}. When is its warranty over?"
        " YYYY-MM-DD.",
        "Warranty of a Larkfield {product} starts on {start}. On which date is it up? YYYY-MM-DD.",
    ),
    (
        "My receipt for a Larkfield {product} says {start}. When is its warranty over? YYYY-MM-DD.",
        "Up to which date is the repair of a Larkfield {product} of {start} free? As YYYY-MM-DD.",
    ),
)
FREIGHT = Phrasings(
    (
        "What do {count} pieces of the Larkfield {product} weigh together, in pounds?",
        "How many pounds are {count} of the Larkfield {product}?",
        "We ship {count} Larkfield {product} devices. How many pounds do they weigh?",
        "What is the weight of {count} units of the Larkfield {product}, in pounds?",
        "A lorry takes {count} of Larkfield's {product}. How many pounds is its load?",
        "Tell me the weight of {count} Larkfield {product} in pounds.",
        "{count} times the Larkfield {product}: how many pounds?",
        "Calculate how many pounds {count} of the {product} by Larkfield weigh.",
        "A crate holds {count} pieces of Larkfield's {product}. How heavy are they, in pounds?",
        "For {count} Larkfield {product}, how many pounds of freight is that?",
        "Look up the weight of a Larkfield {product} and say what {count} weigh, in pounds.",
    ),
    (
        "A crate holds {count} Larkfield {product} devices. What must it bear, in pounds?",
        "How heavy, in pounds, is a heap of {count} Larkfield {product} devices?",
    ),
)
SHARE = Phrasings(
    (
        "Which percentage of the flights to {code} in the sample database left more than {delay}"
        " minutes late? Two decimals.",
        "In the sample database, what percentage of flights to {code} has a dep_delay of more than"
        " {delay}? Two decimals.",
        "How many percent of the sample database's flights to {code} were over {delay} minutes late"
        " at departure? Two decimals.",
        "What share of flights to {code} in the sample database departed more than {delay} minutes"
        " late, in percent? Two decimals.",
        "Tell me the percentage of flights to {code} that left over {delay} minutes late, by the"
        " sample database. Two decimals.",
        "Of all flights to {code} in the sample database, how many percent have a dep_delay above"
        " {delay}? Two decimals.",
        "Calculate how many percent of flights to {code} in the sample database departed over"
        " {delay} minutes late. Two decimals.",
        "Flights to {code} in the sample database: what percentage started more than {delay}"
        " minutes late? Two decimals.",
    ),
    (
        "Of 100 flights to {code} in the sample database, how many had dep_delay over {delay}?"
        " Two decimals.",
        "By the sample database, what is the chance in percent that a flight to {code} leaves later"
        " than {delay} min? Two decimals.",
    ),
)


BASKET = Phrasings(
    (
        "What do {count} Larkfield {product} and {more} Larkfield {other} cost together, in euros?",
        "How many euros are {count} pieces of the Larkfield {product} and {more} of the {other}?",
        "We order {count} Larkfield {product} devices and {more} {other} devices. How many euros?",
        "A lab buys {count} of Larkfield's {product} and {more} of its {other}. What is the sum in"
        " euros?",
        "Tell me what {count} Larkfield {product} plus {more} Larkfield {other} cost, in euros.",
        "Calculate the price of {count} {product} and {more} {other} by Larkfield, in euros.",
        "{count} times the Larkfield {product} and {more} times the {other}: how many euros?",
        "A school orders {count} Larkfield {product} and {more} Larkfield {other}. What is the"
        " bill in euros?",
        "For {count} of Larkfield's {product} and {more} of its {other}, how many euros are due?",
    ),
    (
        "What is the bill in euros for {count} Larkfield {product} devices plus {more} of the"
        " {other}?",
        "How much money, in euros, buys {count} Larkfield {product} and {more} {other} devices?",
    ),
)
DENSITY = Phrasings(
    (
        "How many people live on a square kilometre of {country}? One decimal.",
        "What is the population density of {country}, in people per square kilometre? One decimal.",
        "By population and area, how many people share one square kilometre in {country}? One"
        " decimal.",
        "Divide the population of {country} by its square kilometres. One decimal.",
        "Tell me how many people there are per square kilometre in {country}. One decimal.",
        "Calculate the people per square kilometre of {country}. One decimal.",
        "{country}: what is its population density per square kilometre? One decimal.",
        "Look up population and area of {country} and say how many people share a square kilometre."
        " One decimal.",
        "How densely is {country} populated, in people per square kilometre? One decimal.",
    ),
    (
        "How densely is {country} peopled, per square kilometre? One decimal.",
        "Were the people of {country} spread evenly, how many would a square kilometre hold? One"
        " decimal.",
    ),
)
FLIGHT = Phrasings(
    (
        "How many miles is it from the airport {start} to the airport {end}?",
        "How far is the flight from {start} to {end}, in miles?",
        "What is the distance in miles between the airports {start} and {end}?",
        "Give the miles from airport {start} to airport {end}.",
        "Tell me the miles between the airports {start} and {end}.",
        "Airport {start} to airport {end}: how many miles?",
        "Calculate the distance of the airports {start} and {end} in miles.",
        "How many miles does one fly from airport {start} to airport {end}?",
        "How many miles lie between the airports {start} and {end}?",
        "Look up how far the airport {end} is from {start}, in miles.",
    ),
    (
        "A plane flies straight from {start} to {end}. How many miles are that?",
        "How many miles does one cover on the way from {start} airport to {end} airport?",
    ),
)


def draw(random: Random, split: Split) -> Draft:
    return random.choice(KINDS)(random, split)


def _order(random: Random, split: Split) -> Draft:
    product, count = _product(random, split), number(random, split, 3, 400)
    last = Call("calculator", {"expression": f"{count} * {product.price}"})
    calls = (search(f"price of the {product.name}"), last)
    entities = {"product": product.name, "count": count}
    return Draft(ORDER, entities, "numeric", {"expected": str(solve(last))}, calls)


def _warranty_end(random: Random, split: Split) -> Draft:
    product, start = _product(random, split), a_day(random, split)
    last = Call("add_to_date", {"start": str(start), "months": product.warranty})
    calls = (search(f"warranty of the {product.name}"), last)
    entities = {"product": product.name, "start": written(random, start)}
    return Draft(WARRANTY_END, entities, "contains", {"expected": solve(last)["date"]}, calls)


def _freight(random: Random, split: Split) -> Draft:
    product, count = _product(random, split), number(random, split, 3, 400)
    grams = Call("calculator", {"expression": f"{count} * {product.weight}"})
    last = Call(
        "convert_units",
        {"value": float(solve(grams)), "from_unit": "gram", "to_unit": "pound"},
    )
    pounds = solve(last)["value"]
    parameters = {"expected": plain(pounds), "tolerance": f"{pounds / 1000:.6f}"}
    calls = (search(f"weight of the {product.name}"), grams, last)
    return Draft(FREIGHT, {"product": product.name, "count": count}, "numeric", parameters, calls)


def _share(random: Random, split: Split) -> Draft:
    code = random.choice(members(destinations(), split))
    delay = number(random, split, 10, 120)
    flights = f"SELECT count(*) FROM flights WHERE dest = '{code}'"  # noqa: S608 our own code
    some, all_of_them = select(f"{flights} AND dep_delay > {delay}"), select(flights)
    counts: list[int] = [solve(call)["rows"][0][0] for call in (some, all_of_them)]
    last = Call("calculator", {"expression": f"round(100 * {counts[0]} / {counts[1]}, 2)"})
    parameters = {"expected": str(solve(last)), "tolerance": "0.01"}
    calls = (some, all_of_them, last)
    return Draft(SHARE, {"code": code, "delay": delay}, "numeric", parameters, calls)


def _basket(random: Random, split: Split) -> Draft:
    """Three steps: find one price, then the other, then the sum."""
    known = [each for each in products() if split_of(each.name) is split]
    product, other = random.sample(known, 2)
    count, more = number(random, split, 2, 60), number(random, split, 2, 60)
    total = f"{count} * {product.price} + {more} * {other.price}"
    last = Call("calculator", {"expression": total})
    calls = (search(f"price of the {product.name}"), search(f"price of the {other.name}"), last)
    names = {"product": product.name, "other": other.name}
    parameters = {"expected": str(solve(last))}
    return Draft(BASKET, {**names, "count": count, "more": more}, "numeric", parameters, calls)


def _density(random: Random, split: Split) -> Draft:
    country = random.choice(members(large_countries(), split))
    first = Call("country_facts", {"country": country})
    found = solve(first)
    expression = f"round({found['population']} / {found['area_km2']}, 1)"
    last = Call("calculator", {"expression": expression})
    parameters = {"expected": str(solve(last)), "tolerance": "0.1"}
    return Draft(DENSITY, {"country": country}, "numeric", parameters, (first, last))


def _flight(random: Random, split: Split) -> Draft:
    start, end = random.sample(members(large_airports(), split), 2)
    first = Call("airport_distance", {"from_code": start, "to_code": end})
    distance = {"value": solve(first)["distance_km"], "from_unit": "kilometre", "to_unit": "mile"}
    last = Call("convert_units", distance)
    miles = solve(last)["value"]
    parameters = {"expected": plain(miles), "tolerance": f"{miles / 1000:.6f}"}
    return Draft(FLIGHT, {"start": start, "end": end}, "numeric", parameters, (first, last))


def _product(random: Random, split: Split) -> Product:
    return random.choice([each for each in products() if split_of(each.name) is split])


KINDS = (_order, _warranty_end, _freight, _share, _basket, _density, _flight)
