"""The shipped price list can be put into the price book as it is."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf.json_format import ParseDict

import cost_ledger
from cost_ledger.convert_prices import spec_from_proto
from podium.ledger.v1 import price_book_service_pb2 as pb
from rpckit.testing import make_identity

LISTS = sorted((Path(cost_ledger.__file__).parent / "price_lists").glob("*.yaml"))


def specs(path: Path) -> list[pb.PriceSpec]:
    listing: dict[str, Any] = yaml.safe_load(path.read_text())
    shared = {"currency_code": listing["currency_code"], "source": listing["source"]}
    return [ParseDict(_named(price) | shared, pb.PriceSpec()) for price in listing["prices"]]


def _named(price: dict[str, Any]) -> dict[str, Any]:
    components = [
        component | {"dimension": f"USAGE_DIMENSION_{component['dimension'].upper()}"}
        for component in price["components"]
    ]
    return price | {"components": components}


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_every_price_of_a_list_is_a_valid_spec_of_its_own_sku(path: Path) -> None:
    read = [spec_from_proto(spec, make_identity()) for spec in specs(path)]
    assert len({spec.key.sku for spec in read}) == len(read) > 10


def test_the_papers_search_with_thirty_documents_costs_seven_cents() -> None:
    (paper,) = [path for path in LISTS if path.stem == "paper"]
    (search,) = [spec for spec in specs(paper) if spec.sku == "tool/web-search"]
    prices = {component.dimension: Decimal(component.unit_price) for component in search.components}
    assert sum(prices.values()) + 29 * min(prices.values()) == Decimal("0.07")
