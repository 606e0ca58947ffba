from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, cast

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from cost_ledger.budgets.convert import budget_from_proto, change_from_proto
from cost_ledger.budgets.models import Budget, BudgetScope, BudgetStatus, BudgetWindow
from cost_ledger.budgets.service import BudgetBook
from cost_ledger.budgets.store import AlertStore, BudgetStore
from cost_ledger.errors import (
    BudgetEnded,
    InvalidBudget,
    InvalidOperation,
    NotSettleable,
    PeriodClosed,
)
from cost_ledger.models import Entry, Subject, UnknownPricePolicy
from cost_ledger.posting.batches import Operation, Outcome, decide
from cost_ledger.posting.books import Books, Head, Rows
from cost_ledger.posting.chain import GENESIS
from cost_ledger.posting.operations import (
    Adjust,
    Capture,
    ClosePeriod,
    Expire,
    Record,
    Reserve,
    Settle,
)
from cost_ledger.prices.components import PriceComponent
from cost_ledger.prices.models import PriceHistory, PriceVersion
from podium.common.v1 import money_pb2
from podium.ledger.v1 import budget_service_pb2 as pb
from podium_kit.metering import Dimension, Quantity, Usage, UsageSource
from podium_kit.money import Money
from podium_kit.rpc.errors import DomainError

NOW = datetime(2026, 11, 2, tzinfo=UTC)
TENANT, SKU = "acme", "openai/gpt-5"
A_DOLLAR_A_CALL = PriceVersion(
    "v1",
    "",
    SKU,
    "USD",
    (PriceComponent(Dimension.CALL, Decimal(1), Decimal(1)),),
    None,
    None,
    "",
    NOW,
)
RESERVE = Reserve(
    tenant=TENANT,
    key="k",
    subject=Subject(),
    sku=SKU,
    worst_case=(Quantity(Dimension.CALL, Decimal(1)),),
    unknown_price=UnknownPricePolicy.ADMIT,
    ceiling=None,
    time_to_live_s=60.0,
    dispatched=True,
)
ESTIMATE = Usage.of(UsageSource.ESTIMATED, call=1)
TRUTH = Usage.of(UsageSource.PROVIDER, call=2)


@dataclass
class Ledger:
    books: Books = field(default_factory=lambda: Books(NOW, Rows(heads={TENANT: Head(0, GENESIS)})))

    def apply(self, operation: Operation) -> Outcome:
        outcomes = decide((operation,), self.books)
        if isinstance(outcomes, DomainError):
            raise outcomes
        return outcomes[0]

    def publish(self, price: PriceVersion) -> None:
        self.books.prices = {(TENANT, SKU): PriceHistory((price,))}

    @property
    def entries(self) -> list[Entry]:
        return list(self.books.written.entries.values())

    @property
    def owed(self) -> dict[str, Decimal]:
        sums: dict[str, Decimal] = {}
        for each in self.entries:
            posted = each.postings
            if posted.unit:
                sums[posted.unit] = sums.get(posted.unit, Decimal(0)) - posted.payable
        return sums


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def adjustment(key: str, amount: str) -> Adjust:
    return Adjust(TENANT, key, 2, Money(Decimal(amount), "USD"), "billed otherwise")


@pytest.mark.parametrize("change", ["0.5", "-0.5"])
def test_an_adjusted_estimate_is_settled_only_after_it_is_adjusted_back(
    ledger: Ledger, change: str
) -> None:
    ledger.publish(A_DOLLAR_A_CALL)
    ledger.apply(RESERVE)
    ledger.apply(Capture(TENANT, "k", ESTIMATE))
    ledger.apply(adjustment("fix", change))
    with pytest.raises(NotSettleable, match="adjust it back first"):
        ledger.apply(Settle(TENANT, "k", TRUTH))
    ledger.apply(adjustment("back", str(-Decimal(change))))
    ledger.apply(Settle(TENANT, "k", TRUTH))
    assert ledger.owed == {"USD": Decimal(2)}


def test_a_provisional_cost_of_unknown_price_is_taken_back(ledger: Ledger) -> None:
    ledger.apply(RESERVE)
    ledger.books.now += timedelta(hours=1)
    ledger.apply(Expire(TENANT, "k"))
    assert ledger.owed == {"XXX": Decimal(1)}
    ledger.publish(A_DOLLAR_A_CALL)
    with pytest.raises(NotSettleable, match="has not arrived"):
        ledger.apply(Settle(TENANT, "k", None))
    ledger.apply(Capture(TENANT, "k", TRUTH))
    assert ledger.owed == {"XXX": Decimal(0), "USD": Decimal(2)}


def test_whoever_retries_into_a_closed_period_is_not_led_to_post_the_cost_twice(
    ledger: Ledger,
) -> None:
    posted = Record(TENANT, "r", Subject(), SKU, TRUTH, occur_time=NOW - timedelta(days=30))
    ledger.apply(posted)
    ledger.apply(ClosePeriod(TENANT, "close", NOW - timedelta(days=1)))
    # The key is forgotten, since its retry is rejected by its time.
    del ledger.books.written.answers[TENANT, "record", "r"]
    with pytest.raises(PeriodClosed, match="what was not posted yet goes to the open period"):
        ledger.apply(posted)
    assert ledger.owed == {"XXX": Decimal(1)}


CAP = Budget(
    "acme", "cap", BudgetScope.TENANT, "", BudgetWindow.TOTAL, 0.0, "UTC", Money(Decimal(5), "USD")
)


class BudgetsInMemory(BudgetStore):
    def __init__(self) -> None:
        self.budgets: dict[str, Budget] = {}

    async def add(self, budget: Budget) -> None:
        self.budgets[budget.id] = replace(budget, create_time=datetime.now(UTC), version=1)

    async def status(self, tenant: str, budget_id: str) -> BudgetStatus | None:
        budget = self.budgets.get(budget_id)
        if budget is None or budget.create_time is None:
            return None
        return BudgetStatus(budget, budget.create_time, Decimal(0), Decimal(0), budget.create_time)

    async def other_currencies(self, tenant: str, currency_code: str) -> list[str]:
        return []

    async def close(self, tenant: str, budget_id: str) -> None:
        self.budgets[budget_id] = replace(self.budgets[budget_id], close_time=datetime.now(UTC))


@pytest.fixture
def book() -> BudgetBook:
    return BudgetBook(BudgetsInMemory(), cast(AlertStore, None))


async def test_a_closed_budget_is_not_created_again_as_if_it_held(book: BudgetBook) -> None:
    first = await book.create(CAP)
    assert await book.create(CAP) == first
    await book.close("acme", "cap")
    with pytest.raises(BudgetEnded, match="cap is closed; create one of another id"):
        await book.create(CAP)


async def test_a_budget_that_is_over_is_not_created_again() -> None:
    over = replace(CAP, end_time=datetime.now(UTC) - timedelta(days=1))
    store = BudgetsInMemory()
    await store.add(over)
    with pytest.raises(BudgetEnded, match="cap is over since"):
        await BudgetBook(store, cast(AlertStore, None)).create(over)


@pytest.mark.parametrize("name", ["localtime", "Mars/Olympus", ""])
def test_a_time_zone_that_is_not_the_same_everywhere_is_rejected(name: str) -> None:
    with pytest.raises(InvalidBudget, match="no IANA zone"):
        replace(CAP, time_zone=name)


def test_a_budget_has_no_more_soft_limits_and_no_longer_scope_than_the_ledger_can_bear() -> None:
    limits = [money_pb2.Money(currency_code="USD", amount="1")] * 51
    mask = FieldMask(paths=["soft_limits"])
    with pytest.raises(InvalidBudget, match="51 soft limits; give at most 50"):
        change_from_proto(pb.UpdateBudgetRequest(soft_limits=limits, update_mask=mask), "acme")
    kind: dict[str, Any] = {
        "scope": pb.BUDGET_SCOPE_USER,
        "window": pb.BUDGET_WINDOW_DAY,
        "hard_limit": limits[0],
    }
    with pytest.raises(InvalidBudget, match="51 soft limits; give at most 50"):
        budget_from_proto(pb.Budget(id="cap", soft_limits=limits, **kind), "acme")
    with pytest.raises(InvalidOperation, match="scope_id has more than 500 characters"):
        budget_from_proto(pb.Budget(id="cap", scope_id="u" * 501, **kind), "acme")
