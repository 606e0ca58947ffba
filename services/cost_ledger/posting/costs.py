from dataclasses import replace
from datetime import datetime, timedelta

from cost_ledger.errors import InvalidOperation, PeriodClosed
from cost_ledger.models import Call, Entry, EntryKind, Fallback, Hold, HoldState, Postings
from cost_ledger.posting import postings
from cost_ledger.posting.books import Books
from cost_ledger.posting.drafts import entry_of, move, post, take_back
from cost_ledger.prices.models import PriceVersion
from podium_kit.metering import Usage, UsageSource
from podium_kit.money import InvalidMoney, Money

CLOCK_SKEW_MAX = timedelta(minutes=5)


def check_time(tenant: str, occur_time: datetime | None, books: Books) -> None:
    """Raises InvalidOperation for the future, PeriodClosed for a closed period."""
    if occur_time is None:
        return
    if occur_time > books.now + CLOCK_SKEW_MAX:
        raise InvalidOperation("occur_time is in the future; leave it unset for now")
    closed_before = books.head(tenant).closed_before
    if closed_before and occur_time < closed_before:
        raise PeriodClosed(closed_before.isoformat())


def answered_call(
    hold: Hold, by: Fallback | None, at: datetime, books: Books
) -> tuple[Call, PriceVersion | None]:
    if by is None:
        return hold.call, price_of(hold.call, hold.price_version_id, at, books)
    subject = replace(hold.call.subject, model=by.model)
    call = replace(hold.call, subject=subject, sku=by.sku)
    admitted = {each.sku: each.price_version_id for each in hold.fallbacks}
    admitted[hold.call.sku] = hold.price_version_id
    return call, price_of(call, admitted.get(by.sku, ""), at, books)


def price_of(call: Call, version_id: str, at: datetime, books: Books) -> PriceVersion | None:
    """Returns the price that a call was admitted at; of an unpriced one, the price known by now."""
    pinned = books.price_version(call.tenant, call.sku, version_id)
    return pinned or books.price(call.tenant, call.sku, at, call.service_class, call.region)


def post_cost(
    books: Books,
    kind: EntryKind,
    call: Call,
    *,
    usage: Usage,
    price: PriceVersion | None,
    at: datetime,
    ended: Postings = postings.NOTHING,
) -> Entry:
    """Posts what a usage costs, unknown when it cannot be priced, and counts it in the budgets."""
    if price is not None:
        usage = replace(usage, quantities=price.with_call(usage.quantities))
    amount = cost_of(usage, price, at)
    price = None if amount is None else price
    move(books, call, posted=amount)
    return post(
        books,
        kind,
        call,
        postings.spend(amount, ended),
        price_version_id=price.id if price else "",
        # The trajectory keeps the reason; the journal has no column for it.
        usage=replace(usage, unusable_reason="", service_class=""),
        occur_time=at,
    )


def cost_of(usage: Usage, price: PriceVersion | None, at: datetime) -> Money | None:
    """The cost; None when the price is unknown, the figures are unusable or too large to pay."""
    if price is None or usage.unusable_reason:
        return None
    try:
        return price.cost(usage.quantities, at)
    except InvalidMoney:
        return None


def post_provisional(hold: Hold, ended: Postings, books: Books) -> Entry:
    """Posts the whole hold, at the time the call was about to be made."""
    tenant = hold.call.tenant
    move(books, hold.call, posted=hold.amount)
    return post(
        books,
        EntryKind.CAPTURE,
        hold.call,
        postings.spend_provisionally(hold.amount, ended),
        price_version_id=hold.price_version_id,
        usage=Usage(hold.worst_case, UsageSource.ESTIMATED),
        occur_time=None if books.is_closed(tenant, hold.create_time) else hold.create_time,
    )


def withdraw(hold: Hold, books: Books) -> Postings:
    """Withdraws the present posting of a call: the held money, or the provisional cost.

    Returns the postings for the entry that follows; a provisional cost has its own.
    """
    ended = postings.give_back(hold.amount)
    if hold.state is HoldState.OPEN:
        move(books, hold.call, held=None if hold.amount is None else -hold.amount)
        return ended
    tenant = hold.call.tenant
    provisional = entry_of(tenant, hold.posted_sequence, books)
    take_back(books, EntryKind.SETTLE, provisional, hold.call.key)
    return replace(postings.NOTHING, hold_unit=ended.hold_unit)
