"""The shipped price lists can be imported into the price book as they are."""

from decimal import Decimal
from pathlib import Path

import pytest

import cost_ledger
from cost_ledger.prices.convert import spec_from_proto
from podium_cli.prices.lists import read_price_list

LISTS = sorted((Path(cost_ledger.__file__).parent / "prices" / "lists").glob("*.csv"))


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_every_price_of_a_list_is_a_valid_spec_of_its_own_sku(path: Path) -> None:
    read = [spec_from_proto(spec, "acme") for spec in read_price_list(path)]
    assert len({spec.key.sku for spec in read}) == len(read) > 10


def test_the_papers_search_with_thirty_documents_costs_seven_cents() -> None:
    (paper,) = [path for path in LISTS if path.stem == "paper"]
    (search,) = [spec for spec in read_price_list(paper) if spec.sku == "tool/web-search"]
    prices = {component.dimension: Decimal(component.unit_price) for component in search.components}
    assert sum(prices.values()) + 29 * min(prices.values()) == Decimal("0.07")
