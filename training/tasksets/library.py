"""The bundled library's pages on Larkfield's products, read for what they state."""

import json
import re
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# In a checkout beside training/; in an installed distribution under share/.
PLACES = (
    Path(__file__).parents[2] / "bundled",
    Path(sysconfig.get_path("data")) / "share" / "podium" / "bundled",
)
PAGE = re.compile(
    r"It costs (?P<price>\d+) euros and weighs (?P<weight>\d+) grams.*launched in (?P<launch>\d+)"
    r".*warranty of (?P<warranty>\d+) months",
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


@cache
def products() -> tuple[Product, ...]:
    """All products, in the library's order. Raises FileNotFoundError."""
    documents = map(json.loads, _library().read_text(encoding="utf-8").splitlines())
    pages = [each for each in documents if each["id"].startswith("products/")]
    return tuple(_product(page["title"].split()[0], page["content"]) for page in pages)


def _product(name: str, page: str) -> Product:
    match = PAGE.search(page)
    if match is None:
        raise ValueError(f"the library's page on {name} states no price, weight or warranty")
    return Product(name, **{field: int(value) for field, value in match.groupdict().items()})


def _library() -> Path:
    paths = [folder / "corpus" / "library.jsonl" for folder in PLACES]
    for path in paths:
        if path.is_file():
            return path
    raise FileNotFoundError(f"the bundled library is not at {' or '.join(map(str, paths))}")
