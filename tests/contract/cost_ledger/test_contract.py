from decimal import Decimal
from pathlib import Path

import pytest

import cost_ledger
from cost_ledger.budgets import convert as convert_budgets
from cost_ledger.journal import convert, convert_operations
from cost_ledger.prices.convert import spec_from_proto
from cost_ledger.spend import convert as convert_reports
from podium.ledger.v1 import budget_service_pb2, cost_ledger_service_pb2, hold_pb2
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


@pytest.mark.parametrize(
    ("enum", "known"),
    [
        (hold_pb2.HoldState, convert.STATE_TO_WIRE.values()),
        (hold_pb2.RejectionReason, convert.REASON_TO_WIRE.values()),
        (hold_pb2.EntryKind, convert.KIND_TO_WIRE.values()),
        (hold_pb2.EntryKind, convert_reports.KIND_FROM_WIRE),
        (cost_ledger_service_pb2.SpendDimension, convert_reports.DIMENSION_FROM_WIRE),
        (budget_service_pb2.BudgetScope, convert_budgets.SCOPE_TO_WIRE.values()),
        (budget_service_pb2.BudgetWindow, convert_budgets.WINDOW_TO_WIRE.values()),
    ],
)
def test_every_value_but_unspecified_is_known(enum: object, known: object) -> None:
    assert set(known) == set(enum.values()) - {0}  # type: ignore[attr-defined, call-overload]


def test_every_unknown_price_policy_is_known_and_unset_rejects() -> None:
    assert set(convert_operations.POLICY_FROM_WIRE) == set(hold_pb2.UnknownPricePolicy.values())
    assert (
        convert_operations.POLICY_FROM_WIRE[hold_pb2.UNKNOWN_PRICE_POLICY_UNSPECIFIED].value
        == "reject"
    )
