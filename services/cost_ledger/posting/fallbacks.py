"""Models that may answer in place of the one a call asks for.

The answering model is unknown before the call, so its hold covers the most expensive one. A
fallback never stops a call: one that the budgets do not cover, or whose price is unknown while the
policy rejects such calls, is left out of the hold and must not be called.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from cost_ledger.models import BudgetWindowKey, Fallback, Hold, UnknownPricePolicy
from cost_ledger.posting.books import Books
from cost_ledger.posting.operations import Reserve
from cost_ledger.prices.models import Period, PriceVersion
from podium_kit.metering import Quantity
from podium_kit.money import Money


class Budgets(Protocol):
    def covers(self, fallback: Fallback, amount: Money | None) -> bool:
        """Returns whether the amount fits into all, and into those of the fallback's model."""

    def windows(self) -> tuple[BudgetWindowKey, ...]: ...


def with_fallbacks(hold: Hold, asked: Reserve, budgets: Budgets, books: Books) -> Hold:
    """Returns the hold with the fallbacks that may be called."""
    period = Period(hold.create_time, hold.expire_time)
    kept: list[Fallback] = []
    amount = hold.amount
    for fallback in asked.fallbacks:
        price = books.price(
            asked.tenant, fallback.sku, books.now, asked.service_class, asked.region
        )
        if price is None and asked.unknown_price is UnknownPricePolicy.REJECT:
            continue
        cost = price.worst_cost(hold.worst_case, period) if price else asked.unpriced_amount
        if cost and not _is_comparable(cost, amount):
            continue
        most = most_expensive((amount, cost))
        if not budgets.covers(fallback, most):
            continue
        kept.append(replace(fallback, price_version_id=price.id if price else ""))
        amount = most
    call = replace(hold.call, windows=budgets.windows())
    return replace(hold, call=call, fallbacks=tuple(kept), amount=amount)


def worst_cost(
    hold: Hold, worst_case: tuple[Quantity, ...], period: Period, books: Books
) -> Money | None:
    """The most any model of the hold can cost, at the prices it was admitted at.

    A model of unknown price costs what is held already.
    """
    return most_expensive(
        price.worst_cost(worst_case, period) if price else hold.amount
        for price in _prices(hold, books)
    )


def fitting_output_tokens(
    hold: Hold, worst_case: tuple[Quantity, ...], remaining: Money, period: Period, books: Books
) -> int | None:
    fitting = [
        price.fitting_output_tokens(worst_case, remaining, period) or 0
        for price in _prices(hold, books)
        if price
    ]
    return min(fitting, default=0) or None


def most_expensive(costs: Iterable[Money | None]) -> Money | None:
    """The largest of the known costs; None when all are unknown."""
    return max((cost for cost in costs if cost), key=lambda cost: cost.amount, default=None)


def _prices(hold: Hold, books: Books) -> list[PriceVersion | None]:
    tenant = hold.call.tenant
    asked = books.price_version(tenant, hold.call.sku, hold.price_version_id)
    others = (
        books.price_version(tenant, each.sku, each.price_version_id) for each in hold.fallbacks
    )
    return [asked, *others]


def _is_comparable(cost: Money, amount: Money | None) -> bool:
    return amount is None or amount.currency_code == cost.currency_code
