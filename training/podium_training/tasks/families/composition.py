from collections.abc import Callable
from random import Random
from typing import Any

import periodictable

from podium_training.tasks.draft import Draft, decimal_text, solve
from podium_training.tasks.families.dates import a_day, written
from podium_training.tasks.families.facts import (
    compounds,
    country_of,
    large_airports,
    large_cities,
    large_countries,
)
from podium_training.tasks.families.holidays import a_country, a_year, named
from podium_training.tasks.families.retrieval import search
from podium_training.tasks.families.sky import a_moon
from podium_training.tasks.families.sql import destinations, select
from podium_training.tasks.library import Product, office_of, products
from podium_training.tasks.splits import amount, drawn, members, number, split_of
from podium_training.tasks.task import Call, Split


def draw(random: Random, split: Split) -> Draft:
    return random.choice(KINDS)(random, split)


def _numeric(
    kind: str, entities: dict[str, Any], calls: tuple[Call, ...], tolerance: str = "0"
) -> Draft:
    """Answered by the calculator's result, which the last call gives."""
    parameters = {"expected": decimal_text(solve(calls[-1])), "tolerance": tolerance}
    return Draft(kind, entities, "numeric", parameters, calls)


def _converted(
    kind: str, entities: dict[str, Any], before: tuple[Call, ...], amount: str, unit: str
) -> Draft:
    """Answered by the last call's unit conversion, within 0.1 %."""
    last = Call("convert_units", {"value": amount, "to_unit": unit})
    found = solve(last)["value"]
    parameters = {"expected": decimal_text(found), "tolerance": f"{found / 1000:.6f}"}
    return Draft(kind, entities, "numeric", parameters, (*before, last))


def _phrase(kind: str, entities: dict[str, Any], calls: tuple[Call, ...], expected: str) -> Draft:
    return Draft(kind, entities, "contains", {"expected": expected}, calls)


def _sum(expression: str) -> Call:
    return Call("calculator", {"expression": expression})


def _order(random: Random, split: Split) -> Draft:
    product, count = _product(random, split), number(random, split, 3, 400)
    calls = (search(f"price of the {product.name}"), _sum(f"{count} * {product.price}"))
    return _numeric("order", {"product": product.name, "count": count}, calls)


def _warranty_end(random: Random, split: Split) -> Draft:
    product, start = _product(random, split), written(random, a_day(random, split))
    last = Call("add_to_date", {"start": start, "duration": f"{product.warranty} months"})
    calls = (search(f"warranty of the {product.name}"), last)
    entities = {"product": product.name, "start": start}
    return _phrase("warranty_end", entities, calls, solve(last)["date"])


def _freight(random: Random, split: Split) -> Draft:
    product, count = _product(random, split), number(random, split, 3, 400)
    grams = _sum(f"{count} * {product.weight}")
    calls = (search(f"weight of the {product.name}"), grams)
    entities = {"product": product.name, "count": count}
    return _converted("freight", entities, calls, f"{solve(grams)} grams", "pounds")


def _share_late(random: Random, split: Split) -> Draft:
    code = random.choice(members(destinations(), split))
    delay = number(random, split, 10, 120)
    flights = f"SELECT count(*) FROM flights WHERE dest = '{code}'"  # noqa: S608 our own code
    late, every = select(f"{flights} AND dep_delay > {delay}"), select(flights)
    counts: list[int] = [solve(call)["rows"][0][0] for call in (late, every)]
    calls = (late, every, _sum(f"round(100 * {counts[0]} / {counts[1]}, 2)"))
    return _numeric("share_late", {"code": code, "delay": delay}, calls, "0.01")


def _basket(random: Random, split: Split) -> Draft:
    """Three steps: find one price, then the other, then the sum."""
    known = [each for each in products() if split_of(each.name) is split]
    product, other = random.sample(known, 2)
    count, more = number(random, split, 2, 60), number(random, split, 2, 60)
    total = _sum(f"{count} * {product.price} + {more} * {other.price}")
    calls = (search(f"price of the {product.name}"), search(f"price of the {other.name}"), total)
    names = {"product": product.name, "other": other.name}
    return _numeric("basket", {**names, "count": count, "more": more}, calls)


def _designer_office(random: Random, split: Split) -> Draft:
    product = _product(random, split)
    designer = product.designer
    calls = (search(f"designer of the {product.name}"), search(f"office of {designer}"))
    return _phrase("designer_office", {"product": product.name}, calls, office_of(designer))


def _density(random: Random, split: Split) -> Draft:
    country, first, found = _country(random, split)
    last = _sum(f"round({found['population']} / {found['area_km2']}, 1)")
    return _numeric("density", {"country": country}, (first, last), "0.1")


def _area_miles(random: Random, split: Split) -> Draft:
    country, first, found = _country(random, split)
    area = f"{found['area_km2']} square kilometres"
    return _converted("area_miles", {"country": country}, (first,), area, "square miles")


def _currency_name(random: Random, split: Split) -> Draft:
    country, first, found = _country(random, split)
    last = Call("currency_facts", {"currency": found["currency"]})
    name = solve(last)["name"]
    if not name.isascii():
        return _currency_name(random, split)
    return _phrase("currency_name", {"country": country}, (first, last), name)


def _population_together(random: Random, split: Split) -> Draft:
    (one, first, more), (other, second, less) = _two_countries(random, split)
    calls = (first, second, _sum(f"{more} + {less}"))
    return _numeric("population_together", {"country": one, "other": other}, calls)


def _population_difference(random: Random, split: Split) -> Draft:
    (one, first, more), (other, second, less) = _two_countries(random, split)
    calls = (first, second, _sum(f"{more} - {less}"))
    return _numeric("population_difference", {"country": one, "other": other}, calls)


def _share_of_people(random: Random, split: Split) -> Draft:
    city = random.choice(members(large_cities(), split))
    country = country_of(city)
    one, all_of_it = Call("city_facts", {"city": city}), Call("country_facts", {"country": country})
    part, total = solve(one)["population"], solve(all_of_it)["population"]
    calls = (one, all_of_it, _sum(f"round(100 * {part} / {total}, 2)"))
    return _numeric("share_of_people", {"city": city, "country": country}, calls, "0.01")


def _mass_share(random: Random, split: Split) -> Draft:
    formula = random.choice(members(compounds(), split))
    first = Call("molar_mass", {"formula": formula})
    symbol, share = random.choice(list(solve(first)["mass_fractions"].items()))
    entities = {"element": periodictable.elements.symbol(symbol).name, "formula": formula}
    return _numeric("mass_share", entities, (first, _sum(f"round({share} * 100, 2)")), "0.01")


def _moles_mass(random: Random, split: Split) -> Draft:
    formula = random.choice(members(compounds(), split))
    moles = drawn(lambda: amount(random, 2, 60, (0, 1)), split)
    first = Call("molar_mass", {"formula": formula})
    last = _sum(f"{moles} * {solve(first)['molar_mass_g_per_mol']}")
    return _numeric(
        "moles_mass", {"moles": f"{moles:f}", "formula": formula}, (first, last), "0.01"
    )


def _flight_miles(random: Random, split: Split) -> Draft:
    start, end = random.sample(members(large_airports(), split), 2)
    first = Call("airport_distance", {"from_code": start, "to_code": end})
    distance = f"{solve(first)['distance_km']} km"
    return _converted("flight_miles", {"start": start, "end": end}, (first,), distance, "miles")


def _city_miles(random: Random, split: Split) -> Draft:
    start, end = random.sample(members(large_cities(), split), 2)
    first = Call("city_distance", {"from_city": start, "to_city": end})
    distance = f"{solve(first)['distance_km']} km"
    return _converted("city_miles", {"start": start, "end": end}, (first,), distance, "miles")


def _holiday_weekday(random: Random, split: Split) -> Draft:
    country, year = a_country(random, split), a_year(random)
    day, name = random.choice(named(country, year))
    first = Call("public_holidays", {"country": country, "year": year})
    last = Call("day_of_week", {"day": day})
    entities = {"holiday": name, "country": country, "year": year}
    return _phrase("holiday_weekday", entities, (first, last), solve(last)["weekday"])


def _moon_weekday(random: Random, split: Split) -> Draft:
    month, phase, first = a_moon(random, split)
    last = Call("day_of_week", {"day": solve(first)["utc"].split()[0]})
    entities = {"phase": phase, "month": month}
    return _phrase("moon_weekday", entities, (first, last), solve(last)["weekday"])


def _product(random: Random, split: Split) -> Product:
    return random.choice([each for each in products() if split_of(each.name) is split])


def _country(random: Random, split: Split) -> tuple[str, Call, dict[str, Any]]:
    country = random.choice(members(large_countries(), split))
    call = Call("country_facts", {"country": country})
    return country, call, solve(call)


def _two_countries(random: Random, split: Split) -> list[tuple[str, Call, int]]:
    """Names, calls and populations; the more populous one first."""
    names = random.sample(members(large_countries(), split), 2)
    calls = [Call("country_facts", {"country": name}) for name in names]
    found = [(call.arguments["country"], call, solve(call)["population"]) for call in calls]
    return sorted(found, key=lambda each: -each[2])


KINDS: tuple[Callable[[Random, Split], Draft], ...] = (
    _order,
    _warranty_end,
    _freight,
    _share_late,
    _basket,
    _designer_office,
    _density,
    _area_miles,
    _currency_name,
    _population_together,
    _population_difference,
    _share_of_people,
    _mass_share,
    _moles_mass,
    _flight_miles,
    _city_miles,
    _holiday_weekday,
    _moon_weekday,
)
