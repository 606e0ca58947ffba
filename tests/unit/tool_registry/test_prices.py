import asyncio
from decimal import Decimal

import pytest

from podium_kit.metering import Dimension, Quantity
from podium_kit.money import Money
from tool_registry.errors import PricesUnavailable
from tool_registry.models import Price, PriceComponent
from tool_registry.toolsets import price_cache
from tool_registry.toolsets.price_cache import PriceCache
from tool_registry.toolsets.prices import bounds_of, cost_of, worst_case
from tool_registry.toolsets.terms import price_text

PRICE = Price(
    "USD",
    (
        PriceComponent(Dimension.INPUT_FRESH, Decimal(1), Decimal(1_000_000)),
        PriceComponent(Dimension.OUTPUT_TEXT, Decimal(10), Decimal(1_000_000)),
    ),
)


@pytest.mark.parametrize(
    ("dimension", "amount"),
    [
        (Dimension.INPUT_FRESH, "0.001"),
        (Dimension.CACHE_READ, "0.001"),
        (Dimension.REASONING, "0.01"),
        (Dimension.SECOND, "0"),
    ],
)
def test_tokens_without_a_price_cost_what_they_are_a_kind_of(
    dimension: Dimension, amount: str
) -> None:
    used = [Quantity(dimension, Decimal(1000))]
    assert cost_of(PRICE, used) == Money(Decimal(amount), "USD")


def test_a_price_of_reported_costs_is_bounded_and_described_by_its_tokens() -> None:
    dollar = PriceComponent(Dimension.PROVIDER_COST, Decimal(1), Decimal(1))
    price = Price("USD", (*PRICE.components, dollar))
    tokens = [Quantity(Dimension.INPUT_FRESH, Decimal(1000))]
    reported = [*tokens, Quantity(Dimension.PROVIDER_COST, Decimal("0.4"))]
    assert cost_of(price, reported) == Money(Decimal("0.4"), "USD")
    assert cost_of(price, tokens) == cost_of(PRICE, reported) == cost_of(PRICE, tokens)
    bounds = bounds_of(30, 1000, 1000)
    assert worst_case(price, bounds) == worst_case(PRICE, bounds) is not None
    assert price_text(price) == price_text(PRICE)


CALL_PRICE = Price("USD", (PriceComponent(Dimension.CALL, Decimal(1), Decimal(1)),))


class Book:
    def __init__(self) -> None:
        self.known: dict[str, Price] = {}
        self.asked = 0

    async def prices(self, skus: frozenset[str]) -> dict[str, Price]:
        self.asked += 1
        return {sku: price for sku, price in self.known.items() if sku in skus}


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(price_cache, "time", clock)
    return clock


async def test_a_price_that_was_imported_is_known_a_second_later(clock: Clock) -> None:
    book, skus = Book(), frozenset({"old", "new"})
    book.known["old"] = CALL_PRICE
    cache = PriceCache(book, lifetime_s=5)
    before = await cache.effective("acme", skus)
    book.known["new"] = CALL_PRICE
    assert await cache.effective("acme", skus) is before
    clock.now = 1.0
    after = await cache.effective("acme", skus)
    assert after.by_sku == {"old": CALL_PRICE, "new": CALL_PRICE}
    assert after.by_sku["old"] is before.by_sku["old"]
    clock.now = 5.9
    assert await cache.effective("acme", skus) is after
    assert book.asked == 2
    clock.now = 6.0
    assert await cache.effective("acme", skus) is after
    assert book.asked == 3


async def test_a_lifetime_below_a_second_holds_for_unknown_prices_too(clock: Clock) -> None:
    book = Book()
    cache = PriceCache(book, lifetime_s=0)
    for asked in (1, 2):
        assert not (await cache.effective("acme", frozenset({"new"}))).by_sku
        assert book.asked == asked


async def test_who_waits_for_a_ledger_that_is_away_waits_once(clock: Clock) -> None:
    class Away(Book):
        async def prices(self, skus: frozenset[str]) -> dict[str, Price]:
            await asyncio.sleep(0)
            clock.now += 5.0
            if not self.known:
                self.asked += 1
                raise PricesUnavailable
            return await super().prices(skus)

    book, skus = Away(), frozenset({"old"})
    cache = PriceCache(book, lifetime_s=5)
    waiting = [cache.effective("acme", skus) for _ in range(100)]
    failed = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(each) for each in failed} == {PricesUnavailable}
    assert book.asked == 1
    # Who asks later asks the ledger again.
    book.known["old"] = CALL_PRICE
    assert (await cache.effective("acme", skus)).by_sku == {"old": CALL_PRICE}
