"""Admits the worst case of a call: its price, then every budget that covers it.

When the budgets do not cover all of it, the call is clamped to the output they cover, down to the
caller's minimum; below it the rejection names a call that would fit.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from cost_ledger.budgets.models import BudgetScope, ScopeQuery, WindowStatus
from cost_ledger.errors import BudgetNotFound, CurrencyMismatch
from cost_ledger.models import (
    BudgetWindowKey,
    Call,
    Fallback,
    FittingAlternative,
    Hold,
    HoldState,
    Rejection,
    RejectionReason,
    Subject,
    UnknownPricePolicy,
)
from cost_ledger.posting.books import Books, window_key
from cost_ledger.posting.fallbacks import with_fallbacks
from cost_ledger.posting.operations import Reserve
from cost_ledger.prices.models import Period, PriceVersion
from podium_kit.metering import Dimension, Quantity
from podium_kit.money import Money

OF_WHAT_IS_CALLED = (BudgetScope.TOOL, BudgetScope.MODEL)


@dataclass(frozen=True, slots=True)
class Shortage:
    status: WindowStatus
    remaining: Money


@dataclass(frozen=True, slots=True)
class Offer:
    """A worst case to hold, and the most it can cost; None is unknown."""

    price: PriceVersion | None
    worst_case: tuple[Quantity, ...]
    amount: Money | None


def admit(asked: Reserve, books: Books) -> Hold | Rejection:
    price = books.price(asked.tenant, asked.sku, books.now, asked.service_class, asked.region)
    if price is None and asked.unknown_price is UnknownPricePolicy.REJECT:
        return _unknown_price(asked)
    period = _period(asked, books)
    worst_case = price.with_call(asked.worst_case) if price else asked.worst_case
    amount = price.worst_cost(worst_case, period) if price else asked.unpriced_amount
    statuses = statuses_of(covering_queries(asked), books)
    shortage = _shortage(statuses, amount, books) if amount else None
    if shortage is None:
        offer = Offer(price, worst_case, amount)
        return _hold(asked, offer, statuses, period, books)
    if amount and asked.asks_again and _fits_unheld(statuses, amount, books):
        return _held(shortage)
    fitting = price and price.fitting_output_tokens(worst_case, shortage.remaining, period)
    if price and fitting and 0 < asked.min_output_tokens <= fitting:
        clamped = _clamped(worst_case, fitting)
        offer = Offer(price, clamped, price.worst_cost(clamped, period))
        return _hold(asked, offer, statuses, period, books)
    if asked.asks_again and price and asked.min_output_tokens:
        least = price.worst_cost(_clamped(worst_case, asked.min_output_tokens), period)
        if _fits_unheld(statuses, least, books):
            return _held(shortage)
    alternative = _next_cheaper(asked, statuses, period, books)
    return _exhausted(shortage, fitting or None, alternative)


def queries_of_reserve(asked: Reserve) -> Iterator[ScopeQuery]:
    """Yields every scope whose budgets may cover a call, whichever model answers it."""
    yield from covering_queries(asked)
    for fallback in asked.fallbacks:
        if fallback.model != asked.subject.model:
            yield _of_model(asked, fallback)


def covering_queries(asked: Reserve) -> Iterator[ScopeQuery]:
    """Yields every scope whose budgets cover a call that the model answers which was asked for,
    also those of all teams and agents of its caller."""
    yield from scope_queries(asked.tenant, asked.subject, asked.budget_ids, None)
    for scope, own, others in (
        (BudgetScope.TEAM, asked.subject.team, asked.teams),
        (BudgetScope.AGENT, asked.subject.agent, asked.agents),
        (BudgetScope.KEY, "", asked.keys),
    ):
        for name in sorted(set(others) - {own, ""}):
            yield ScopeQuery(asked.tenant, scope, name, None)


def _of_model(asked: Reserve, fallback: Fallback) -> ScopeQuery:
    return ScopeQuery(asked.tenant, BudgetScope.MODEL, fallback.model, None)


def windows_of(
    tenant: str, subject: Subject, at: datetime | None, books: Books
) -> tuple[BudgetWindowKey, ...]:
    """Returns the budget windows that count a call which needs no admission; None means now."""
    queries = scope_queries(tenant, subject, (), at)
    return tuple(window_key(entry) for entry in statuses_of(queries, books))


def scope_queries(
    tenant: str, subject: Subject, budget_ids: tuple[str, ...], at: datetime | None
) -> Iterator[ScopeQuery]:
    yield ScopeQuery(tenant, BudgetScope.TENANT, "", at)
    scopes = (
        (BudgetScope.TEAM, subject.team),
        (BudgetScope.USER, subject.user),
        (BudgetScope.AGENT, subject.agent),
        (BudgetScope.EPISODE, subject.episode_id),
        (BudgetScope.TOOL, subject.tool),
        (BudgetScope.MODEL, subject.model),
    )
    yield from (ScopeQuery(tenant, scope, name, at) for scope, name in scopes if name)
    for budget_id in sorted(set(budget_ids)):
        yield ScopeQuery(tenant, BudgetScope.NAMED, budget_id, at)


def statuses_of(queries: Iterable[ScopeQuery], books: Books) -> list[WindowStatus]:
    """Raises BudgetNotFound for a name without a budget."""
    statuses: list[WindowStatus] = []
    for query in queries:
        found = books.statuses.get(query, [])
        # A budget that was named and is gone must not mean "no limit".
        if query.scope is BudgetScope.NAMED and not found:
            raise BudgetNotFound(query.scope_id)
        statuses.extend(found)
    return statuses


def _shortage(statuses: list[WindowStatus], amount: Money, books: Books) -> Shortage | None:
    shortages = []
    for status in statuses:
        if status.limit.currency_code != amount.currency_code:
            raise CurrencyMismatch(
                status.budget_id, status.limit.currency_code, amount.currency_code
            )
        left = status.limit.amount - books.used(status)
        if amount.amount > left:
            remaining = Money(max(Decimal(0), left), amount.currency_code)
            shortages.append(Shortage(status, remaining))
    return min(shortages, key=lambda shortage: shortage.remaining.amount, default=None)


def _fits_unheld(statuses: list[WindowStatus], amount: Money, books: Books) -> bool:
    """Returns whether the amount fits once all present holds are released."""
    return all(
        amount.amount <= status.limit.amount - books.used(status) + books.held(status)
        for status in statuses
    )


def _covers(statuses: list[WindowStatus], books: Books, amount: Money) -> bool:
    return all(
        status.limit.currency_code == amount.currency_code
        and amount.amount <= status.limit.amount - books.used(status)
        for status in statuses
    )


def _period(asked: Reserve, books: Books) -> Period:
    """Returns the time of the call: the hold covers the most expensive hour of it."""
    return Period(books.now, books.now + timedelta(seconds=asked.time_to_live_s))


def _hold(
    asked: Reserve, offer: Offer, statuses: list[WindowStatus], period: Period, books: Books
) -> Hold:
    call = Call(
        tenant=asked.tenant,
        key=asked.key,
        subject=asked.subject,
        sku=asked.sku,
        windows=tuple(map(window_key, statuses)),
        service_class=asked.service_class,
        region=asked.region,
        policy_version=asked.policy_version,
    )
    hold = Hold(
        call=call,
        worst_case=offer.worst_case,
        amount=offer.amount,
        state=HoldState.OPEN,
        price_version_id=offer.price.id if offer.price else "",
        create_time=period.start,
        expire_time=period.end,
        dispatched=asked.dispatched,
    )
    if not asked.fallbacks:
        return hold
    return with_fallbacks(hold, asked, Covering(statuses, asked, books), books)


@dataclass
class Covering:
    """The budgets that cover a hold, more with every fallback that it keeps."""

    statuses: list[WindowStatus]
    asked: Reserve
    books: Books

    def covers(self, fallback: Fallback, amount: Money | None) -> bool:
        """Adds the budgets of the fallback's model if the amount fits into all."""
        own = []
        if fallback.model != self.asked.subject.model:
            own = self.books.statuses.get(_of_model(self.asked, fallback), [])
        statuses = [*self.statuses, *own]
        if amount and not _covers(statuses, self.books, amount):
            return False
        self.statuses = statuses
        return True

    def windows(self) -> tuple[BudgetWindowKey, ...]:
        return tuple(map(window_key, self.statuses))


def _clamped(worst_case: tuple[Quantity, ...], output_tokens: int) -> tuple[Quantity, ...]:
    return tuple(
        Quantity(entry.dimension, Decimal(output_tokens))
        if entry.dimension is Dimension.OUTPUT_TEXT
        else entry
        for entry in worst_case
    )


def _next_cheaper(
    asked: Reserve, statuses: list[WindowStatus], period: Period, books: Books
) -> FittingAlternative | None:
    """The most expensive alternative that the budgets cover, but for those of tools and models:
    they cover other calls."""
    shared = [each for each in statuses if each.scope not in OF_WHAT_IS_CALLED]
    fitting = [
        FittingAlternative(each.tool, each.model, cost)
        for each in asked.alternatives
        if (price := books.price(asked.tenant, each.sku, books.now))
        and _covers(shared, books, cost := price.worst_cost(each.worst_case, period))
    ]
    return max(fitting, key=lambda each: each.worst_case_cost.amount, default=None)


def _exhausted(
    shortage: Shortage, fitting: int | None, alternative: FittingAlternative | None
) -> Rejection:
    fixes = []
    if fitting:
        fixes.append(f"query for at most {fitting} output tokens")
    if alternative:
        model = f" with model {alternative.model}" if alternative.model else ""
        fixes.append(
            f"use {alternative.tool}{model}, which costs at most {alternative.worst_case_cost}"
        )
    return Rejection(
        RejectionReason.BUDGET_EXHAUSTED,
        f"budget {shortage.status.budget_id} has {shortage.remaining} left, "
        f"less than the call can cost; {' or '.join(fixes) or 'raise the budget or wait'}",
        shortage.status.budget_id,
        shortage.remaining,
        fitting,
        alternative,
    )


def _held(shortage: Shortage) -> Rejection:
    status, remaining = shortage.status, shortage.remaining
    return Rejection(
        RejectionReason.BUDGET_HELD,
        f"budget {status.budget_id} has {remaining} left beside what calls in progress hold, less "
        "than the call can cost; ask again once they have ended",
        status.budget_id,
        remaining,
    )


def _unknown_price(asked: Reserve) -> Rejection:
    name = asked.sku or "a call without SKU"
    return Rejection(
        RejectionReason.UNKNOWN_PRICE,
        f"the price of {name} is unknown; add it to the price book, "
        "or admit calls of unknown price",
    )
