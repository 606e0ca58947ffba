"""Whether the worst case of a call may be held: its price, then every budget that covers it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from cost_ledger.books import Books, window_key
from cost_ledger.budgets import BudgetScope, ScopeAsk, Standing
from cost_ledger.errors import BudgetNotFound, CurrencyMismatch
from cost_ledger.models import (
    BudgetWindowKey,
    Call,
    Hold,
    HoldState,
    Refusal,
    RefusalReason,
    Subject,
    UnknownPricePolicy,
)
from cost_ledger.operations import Reserve
from cost_ledger.pricing import PriceVersion
from money import Money


@dataclass(frozen=True, slots=True)
class Shortage:
    """A budget that does not cover the worst case."""

    standing: Standing
    remaining: Money


def admit(asked: Reserve, books: Books) -> Hold | Refusal:
    """The hold, or the refusal that names the tightest budget and what would fit."""
    price = books.price(asked.tenant, asked.sku, books.now)
    if price is None and asked.unknown_price is UnknownPricePolicy.REFUSE:
        return _unknown_price(asked)
    amount = price.cost(asked.worst_case) if price else _unpriced_amount(asked)
    standings = standings_of(asked.tenant, asked.subject, asked.budget_ids, books.now, books)
    shortage = _shortage(standings, amount, books) if amount else None
    if shortage:
        return _exhausted(asked, price, shortage)
    windows = tuple(window_key(standing) for standing in standings)
    return Hold(
        call=Call(asked.tenant, asked.key, asked.subject, asked.sku, windows),
        worst_case=asked.worst_case,
        amount=amount,
        state=HoldState.OPEN,
        price_version_id=price.id if price else "",
        create_time=books.now,
        expire_time=books.now + timedelta(seconds=asked.time_to_live_s),
    )


def windows_of(
    tenant: str, subject: Subject, at: datetime, books: Books
) -> tuple[BudgetWindowKey, ...]:
    """The budget windows that count a call which needs no admission."""
    return tuple(window_key(entry) for entry in standings_of(tenant, subject, (), at, books))


def scope_asks(
    tenant: str, subject: Subject, budget_ids: tuple[str, ...], at: datetime
) -> Iterator[ScopeAsk]:
    """Every scope whose budgets cover a call."""
    yield ScopeAsk(tenant, BudgetScope.TENANT, "", at)
    scopes = (
        (BudgetScope.TEAM, subject.team),
        (BudgetScope.USER, subject.user),
        (BudgetScope.AGENT, subject.agent),
        (BudgetScope.EPISODE, subject.episode_id),
    )
    yield from (ScopeAsk(tenant, scope, name, at) for scope, name in scopes if name)
    for budget_id in sorted(set(budget_ids)):
        yield ScopeAsk(tenant, BudgetScope.NAMED, budget_id, at)


def standings_of(
    tenant: str, subject: Subject, budget_ids: tuple[str, ...], at: datetime, books: Books
) -> list[Standing]:
    """Where every covering budget stands. Raises BudgetNotFound for a name without budget."""
    standings: list[Standing] = []
    for ask in scope_asks(tenant, subject, budget_ids, at):
        found = books.standings.get(ask, [])
        # A budget that was named and is gone must not mean "no limit".
        if ask.scope is BudgetScope.NAMED and not found:
            raise BudgetNotFound(ask.scope_id)
        standings.extend(found)
    return standings


def _shortage(standings: list[Standing], amount: Money, books: Books) -> Shortage | None:
    """The budget with the least left among those that do not cover the amount."""
    shortages = []
    for standing in standings:
        if standing.limit.currency_code != amount.currency_code:
            raise CurrencyMismatch(
                standing.budget_id, standing.limit.currency_code, amount.currency_code
            )
        left = standing.limit.amount - books.used(standing)
        if amount.amount > left:
            remaining = Money(max(Decimal(0), left), amount.currency_code)
            shortages.append(Shortage(standing, remaining))
    return min(shortages, key=lambda shortage: shortage.remaining.amount, default=None)


def _unpriced_amount(asked: Reserve) -> Money | None:
    at_ceiling = asked.unknown_price is UnknownPricePolicy.ADMIT_AT_CEILING
    return asked.ceiling if at_ceiling else None


def _exhausted(asked: Reserve, price: PriceVersion | None, shortage: Shortage) -> Refusal:
    fitting = price and price.fitting_output_tokens(asked.worst_case, shortage.remaining)
    mend = f"ask for at most {fitting} output tokens" if fitting else "raise the budget or wait"
    return Refusal(
        RefusalReason.BUDGET_EXHAUSTED,
        f"budget {shortage.standing.budget_id} has {shortage.remaining} left, "
        f"less than the call can cost; {mend}",
        shortage.standing.budget_id,
        shortage.remaining,
        fitting or None,
    )


def _unknown_price(asked: Reserve) -> Refusal:
    name = asked.sku or "a call without SKU"
    return Refusal(
        RefusalReason.UNKNOWN_PRICE,
        f"the price of {name} is unknown; add it to the price book, "
        "or admit calls of unknown price",
    )
