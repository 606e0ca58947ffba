"""The bundled library's pages on Larkfield's products, read for what they state."""

import json
import re
from dataclasses import dataclass
from functools import cache

from podium_kit.bundled_files import bundled_folder

PAGE = re.compile(
    r"It costs (?P<price>\d+) euros and weighs (?P<weight>\d+) grams.*launched in (?P<launch>\d+)"
    r", was designed by (?P<designer>[^.]+) and comes with .*warranty of (?P<warranty>\d+) months",
    re.DOTALL,
)


@dataclass(frozen=True)
class Product:
    """What the library says of a product."""

    name: str
    price: int
    """Euros."""
    weight: int
    """Grams."""
    launch: int
    """Year."""
    warranty: int
    """Months."""
    designer: str


@cache
def products() -> tuple[Product, ...]:
    """All products, in the library's order. Raises BundledFilesMissing."""
    library = bundled_folder() / "corpus" / "library.jsonl"
    documents = map(json.loads, library.read_text(encoding="utf-8").splitlines())
    pages = [each for each in documents if each["id"].startswith("products/")]
    return tuple(_product(page["title"].split()[0], page["content"]) for page in pages)


def _product(name: str, page: str) -> Product:
    match = PAGE.search(page)
    if match is None:
        raise ValueError(f"the library's page on {name} states no price, weight or warranty")
    stated = match.groupdict()
    designer = stated.pop("designer")
    return Product(name, designer=designer, **{field: int(n) for field, n in stated.items()})
