"""Writes bundled/corpus/library.jsonl: the documents of the bundled corpus.

    python bundled/generate_corpus.py [FILE]

Two kinds of documents, always the same for the same packages and seed: short
encyclopaedia entries from open data (GeoNames CC BY 4.0, airportsdata MIT,
periodictable public domain), and the handbook of Larkfield Instruments, a company
that does not exist, whose facts (larkfield.yaml) can be found nowhere else. Each line is one
podium.adapters.v1.Document in JSON.
"""

import json
import random
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from podium_functions.airports import airport_facts
from podium_functions.chemistry import element_facts
from podium_functions.countries import countries, country_facts, geonames

SEED = 20251121
OUTPUT = Path(__file__).parent / "corpus" / "library.jsonl"
COUNTRIES = 90
ELEMENTS = range(1, 61)
AIRPORTS = (
    "AMS ATL BKK BOM BOS CDG CGK CPH DEL DEN DFW DOH DXB EWR FCO FRA GRU HEL HKG HND ICN IST "
    "JFK JNB KUL LAX LHR MAD MEX MIA MUC NRT ORD PEK SEA SFO SIN SYD VIE YYZ ZRH"
)

COMPANY = yaml.safe_load(Path(__file__).with_name("larkfield.yaml").read_text())


@dataclass(frozen=True)
class Document:
    id: str
    title: str
    content: str
    mediaType: str  # noqa: N815
    uri: str


def document(folder: str, name: str, title: str, paragraphs: list[str]) -> Document:
    """A plain-text document whose URI names its place in the library."""
    slug = name.casefold().replace(" ", "-")
    uri = f"library://{folder}/{slug}"
    return Document(f"{folder}/{slug}", title, "\n\n".join(paragraphs), "text/plain", uri)


def encyclopaedia() -> Iterator[Document]:
    by_population = sorted(
        countries().values(), key=lambda each: (-each["population"], each["iso"])
    )
    for country in by_population[:COUNTRIES]:
        yield country_entry(country["iso"])
    for number in ELEMENTS:
        yield element_entry(number)
    for code in AIRPORTS.split():
        yield airport_entry(code)


def country_entry(code: str) -> Document:
    facts = country_facts(code)
    cities = [each for each in geonames().get_cities().values() if each["countrycode"] == code]
    largest = sorted(cities, key=lambda each: -each["population"])[:3]
    neighbours = ", ".join(facts["neighbours"]) or "no other country"
    return document("countries", facts["name"], facts["name"], [
        f"{facts['name']} is a country in {facts['continent']}. Its capital is "
        f"{facts['capital']} and its currency code is {facts['currency']}.",
        f"It has {facts['population']:,} inhabitants on {facts['area_km2']:,} square kilometres "
        f"and borders {neighbours}.",
        "Its largest cities are "
        + ", ".join(f"{each['name']} ({each['population']:,})" for each in largest) + ".",
    ])  # fmt: skip


def element_entry(number: int) -> Document:
    facts = element_facts(str(number))
    name = facts["name"].capitalize()
    density = facts["density_g_per_cm3"]
    return document("elements", facts["name"], name, [
        f"{name} is the chemical element with the symbol {facts['symbol']} and the atomic "
        f"number {facts['atomic_number']}. Its standard atomic mass is "
        f"{facts['atomic_mass_u']} u.",
        f"The density of {facts['name']} is {density} grams per cubic centimetre.",
    ])  # fmt: skip


def airport_entry(code: str) -> Document:
    facts = airport_facts(code)
    return document("airports", code, facts["name"], [
        f"{facts['name']} serves {facts['city']} in {facts['country']}. Its IATA code is {code} "
        f"and its ICAO code is {facts['icao']}.",
        f"It lies {facts['elevation_m']} metres above the sea in the time zone "
        f"{facts['timezone']}.",
    ])  # fmt: skip


def handbook(chance: random.Random) -> Iterator[Document]:
    """Offices, people, products and policies of the invented company; facts agree."""
    offices, names = list(COMPANY["offices"]), list(COMPANY["people"])
    chance.shuffle(names)
    homes = {name: offices[number % len(offices)] for number, name in enumerate(names)}
    for office in offices:
        yield office_page(office, [name for name in names if homes[name] == office], chance)
    designers = dict(zip(COMPANY["products"], names, strict=False))
    for name in names:
        made = [product for product, designer in designers.items() if designer == name]
        yield person_page(name, homes[name], made, chance)
    for product, designer in designers.items():
        yield product_page(product, designer, chance)
    for title, text in COMPANY["policies"].items():
        numbers = {
            "a": chance.randint(11, 34),
            "b": chance.randint(5, 10),
            "c": chance.randint(2, 4),
        }
        yield document("handbook", title, f"Policy: {title}", [
            f"{title} at Larkfield Instruments. {text.format(**numbers)}",
            f"This policy is kept by the {chance.choice(offices)} office.",
        ])  # fmt: skip


def office_page(office: str, people: list[str], chance: random.Random) -> Document:
    task = COMPANY["offices"][office]
    return document("offices", office, f"Office: {office}", [
        f"The {office} office of Larkfield Instruments is responsible for {task}. It "
        f"opened in {chance.randint(1978, 2021)} and has {chance.randint(18, 240)} employees.",
        f"The head of the {office} office is {people[0]}.",
    ])  # fmt: skip


def person_page(name: str, office: str, products: list[str], chance: random.Random) -> Document:
    designed = f"{name} designed the {' and the '.join(products)}." if products else ""
    return document("people", name, name, [
        f"{name} works for Larkfield Instruments in the {office} office and joined in "
        f"{chance.randint(1995, 2024)}. Extension {chance.randint(2000, 8999)}. {designed}".strip()
    ])  # fmt: skip


def product_page(product: str, designer: str, chance: random.Random) -> Document:
    kind = COMPANY["products"][product]
    return document("products", product, f"{product} {kind}", [
        f"The {product} ({kind}) is made by Larkfield Instruments. It costs "
        f"{chance.randint(8, 480) * 10} euros and weighs {chance.randint(120, 9800)} grams.",
        f"The {product} was launched in {chance.randint(2009, 2025)}, was designed by {designer} "
        f"and comes with a warranty of {chance.choice((18, 24, 30, 36, 48, 60))} months.",
        f"Its battery lasts {chance.randint(6, 400)} hours and it is protected to "
        f"IP{chance.choice((54, 65, 66, 67, 68))}.",
    ])  # fmt: skip


def main() -> None:
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    chance = random.Random(SEED)  # noqa: S311 (reproducible on purpose)
    documents = [*encyclopaedia(), *handbook(chance)]
    lines = (json.dumps(asdict(each), ensure_ascii=False) for each in documents)
    output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(documents)} documents in {output}")  # noqa: T201


if __name__ == "__main__":
    main()
