import json
import re
from dataclasses import dataclass
from functools import cache

from podium_kit.bundled_files import bundled_folder

PAGE = re.compile(
    r"\((?P<kind>[^)]+)\) is made by.*It costs (?P<price>\d+) euros"
    r" and weighs (?P<weight>\d+) grams.*launched in (?P<launch>\d+)"
    r", was designed by (?P<designer>[^.]+) and comes with .*warranty of (?P<warranty>\d+) months"
    r".*battery lasts (?P<battery>\d+) hours",
    re.DOTALL,
)
OFFICE = re.compile(
    r"is responsible for (?P<task>[^.]+)\. It opened in \d+ and has (?P<size>\d+) employees"
    r".*The head of the \w+ office is (?P<head>[^.]+)\.",
    re.DOTALL,
)
DESK = re.compile(r"works for Larkfield Instruments in the (?P<office>\w+) office")


@dataclass(frozen=True)
class Product:
    name: str
    price: int
    """Euros."""
    weight: int
    """Grams."""
    launch: int
    """Year."""
    warranty: int
    """Months."""
    battery: int
    """Hours."""
    kind: str
    designer: str


@dataclass(frozen=True)
class Office:
    name: str
    task: str
    size: int
    """Employees."""
    head: str


@cache
def products() -> tuple[Product, ...]:
    return tuple(_product(title.split()[0], page) for title, page in _pages("products"))


@cache
def offices() -> tuple[Office, ...]:
    found = ((title.split()[-1], OFFICE.search(page)) for title, page in _pages("offices"))
    return tuple(
        Office(name, match["task"], int(match["size"]), match["head"])
        for name, match in found
        if match
    )


@cache
def office_of(person: str) -> str:
    match = DESK.search(dict(_pages("people"))[person])
    if match is None:
        raise ValueError(f"the library's page on {person} states no office")
    return match["office"]


@cache
def _pages(folder: str) -> list[tuple[str, str]]:
    library = bundled_folder() / "corpus" / "library.jsonl"
    documents = map(json.loads, library.read_text(encoding="utf-8").splitlines())
    pages = [each for each in documents if each["id"].startswith(f"{folder}/")]
    return [(page["title"], page["content"]) for page in pages]


def _product(name: str, page: str) -> Product:
    match = PAGE.search(page)
    if match is None:
        raise ValueError(f"the library's page on {name} states no price, weight or warranty")
    stated = match.groupdict()
    numbers = {field: int(text) for field, text in stated.items() if text.isdigit()}
    return Product(name, kind=stated["kind"], designer=stated["designer"], **numbers)
