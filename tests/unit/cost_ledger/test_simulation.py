from datetime import UTC, datetime
from decimal import Decimal

from cost_ledger.audit.simulation import OtherPrices
from cost_ledger.models import Call, Entry, EntryKind, Postings, Subject
from cost_ledger.prices.components import PriceComponent
from cost_ledger.prices.specs import PriceKey, PriceSpec
from podium_kit.metering import Dimension, Usage, UsageSource

NOW = datetime(2026, 11, 2, tzinfo=UTC)


def make_spec(tenant: str, price: str) -> PriceSpec:
    component = PriceComponent(Dimension.CALL, Decimal(price), Decimal(1))
    return PriceSpec(PriceKey(tenant, "search"), "USD", (component,), None, None, "")


def make_call(tenant: str) -> Entry:
    return Entry(
        1,
        EntryKind.RECORD,
        Call(tenant, "k", Subject(), "search"),
        Postings(unit="USD", spend=Decimal(5), payable=Decimal(-5)),
        "v",
        NOW,
        NOW,
        Usage.of(UsageSource.MEASURED, call=1),
    )


def test_another_tenants_special_price_does_not_price_a_tenants_calls() -> None:
    specs = [make_spec("", "3"), make_spec("acme", "1")]
    for tenant, amount in (("acme", 1), ("beta", 3)):
        (cost,) = OtherPrices(specs, tenant, NOW).simulate([make_call(tenant)])
        assert cost.simulated == {"USD": Decimal(amount)}
