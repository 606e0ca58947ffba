from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from cost_ledger.errors import NotSettleable, PeriodClosed
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
    Reverse,
    Settle,
)
from cost_ledger.prices.components import PriceComponent
from cost_ledger.prices.models import PriceHistory, PriceVersion
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


def test_a_provisional_cost_of_unknown_price_is_taken_back_once(ledger: Ledger) -> None:
    ledger.apply(RESERVE)
    ledger.books.now += timedelta(hours=1)
    ledger.apply(Expire(TENANT, "k"))
    assert ledger.owed == {"XXX": Decimal(1)}
    ledger.apply(Reverse(TENANT, "undo", 2, "it was never sent"))
    ledger.publish(A_DOLLAR_A_CALL)
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
