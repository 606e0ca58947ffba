"""Every value of the contract's enums has its domain value, so that none is lost on the way."""

import pytest

from cost_ledger.budgets import convert as convert_budgets
from cost_ledger.journal import convert, convert_operations
from cost_ledger.spend import convert as convert_reports
from podium.ledger.v1 import budget_service_pb2, cost_ledger_service_pb2, hold_pb2


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
