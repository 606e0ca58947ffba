"""Two and three steps: each needs what the one before it found."""

from random import Random

from podium_training.tasks.draft import Draft, solve
from podium_training.tasks.families.dates import a_day, written
from podium_training.tasks.families.facts import large_airports, large_countries
from podium_training.tasks.families.retrieval import search
from podium_training.tasks.families.sql import destinations, select
from podium_training.tasks.families.units import plain
from podium_training.tasks.library import Product, products
from podium_training.tasks.splits import members, number, split_of
from podium_training.tasks.task import Call, Split


def draw(random: Random, split: Split) -> Draft:
    return random.choice(KINDS)(random, split)


def _order(random: Random, split: Split) -> Draft:
    product, count = _product(random, split), number(random, split, 3, 400)
    last = Call("calculator", {"expression": f"{count} * {product.price}"})
    calls = (search(f"price of the {product.name}"), last)
    entities = {"product": product.name, "count": count}
    return Draft("order", entities, "numeric", {"expected": str(solve(last))}, calls)


def _warranty_end(random: Random, split: Split) -> Draft:
    product, start = _product(random, split), a_day(random, split)
    last = Call("add_to_date", {"start": str(start), "months": product.warranty})
    calls = (search(f"warranty of the {product.name}"), last)
    entities = {"product": product.name, "start": written(random, start)}
    return Draft("warranty_end", entities, "contains", {"expected": solve(last)["date"]}, calls)


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
    return Draft("freight", {"product": product.name, "count": count}, "numeric", parameters, calls)


def _share(random: Random, split: Split) -> Draft:
    code = random.choice(members(destinations(), split))
    delay = number(random, split, 10, 120)
    flights = f"SELECT count(*) FROM flights WHERE dest = '{code}'"  # noqa: S608 our own code
    some, all_of_them = select(f"{flights} AND dep_delay > {delay}"), select(flights)
    counts: list[int] = [solve(call)["rows"][0][0] for call in (some, all_of_them)]
    last = Call("calculator", {"expression": f"round(100 * {counts[0]} / {counts[1]}, 2)"})
    parameters = {"expected": str(solve(last)), "tolerance": "0.01"}
    calls = (some, all_of_them, last)
    return Draft("share_late", {"code": code, "delay": delay}, "numeric", parameters, calls)


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
    return Draft("basket", {**names, "count": count, "more": more}, "numeric", parameters, calls)


def _density(random: Random, split: Split) -> Draft:
    country = random.choice(members(large_countries(), split))
    first = Call("country_facts", {"country": country})
    found = solve(first)
    expression = f"round({found['population']} / {found['area_km2']}, 1)"
    last = Call("calculator", {"expression": expression})
    parameters = {"expected": str(solve(last)), "tolerance": "0.1"}
    return Draft("density", {"country": country}, "numeric", parameters, (first, last))


def _flight(random: Random, split: Split) -> Draft:
    start, end = random.sample(members(large_airports(), split), 2)
    first = Call("airport_distance", {"from_code": start, "to_code": end})
    distance = {"value": solve(first)["distance_km"], "from_unit": "kilometre", "to_unit": "mile"}
    last = Call("convert_units", distance)
    miles = solve(last)["value"]
    parameters = {"expected": plain(miles), "tolerance": f"{miles / 1000:.6f}"}
    return Draft("flight_miles", {"start": start, "end": end}, "numeric", parameters, (first, last))


def _product(random: Random, split: Split) -> Product:
    return random.choice([each for each in products() if split_of(each.name) is split])


KINDS = (_order, _warranty_end, _freight, _share, _basket, _density, _flight)
