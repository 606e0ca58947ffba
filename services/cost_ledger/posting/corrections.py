"""Decides corrections: the wrong entry stays, and another one corrects it."""

from dataclasses import replace

from cost_ledger.errors import CallNotFound, NotAdjustable, NotSettleable, PeriodNotClosable
from cost_ledger.models import Call, Entry, EntryKind, Hold, HoldState, Subject
from cost_ledger.posting.books import Books
from cost_ledger.posting.costs import cost_of, post_cost, price_of
from cost_ledger.posting.drafts import (
    adjust_by,
    answered,
    entry_of,
    post,
    remember,
    take_back,
)
from cost_ledger.posting.operations import Adjust, ClosePeriod, Record, Settle
from cost_ledger.posting.postings import NOTHING
from cost_ledger.prices.models import PriceVersion
from podium_kit.metering import Usage, UsageSource

COSTS = {EntryKind.CAPTURE, EntryKind.RECORD}


def adjust(asked: Adjust, books: Books) -> Entry:
    """Posts a difference to a final cost, whose rest is never below zero."""
    if answer := answered(asked, books):
        return entry_of(asked.tenant, answer.sequence, books)
    wrong = entry_of(asked.tenant, asked.sequence, books)
    if fault := _not_final(wrong, books) or _not_adjustable(wrong, asked, books):
        raise NotAdjustable(wrong.sequence, fault)
    entry = adjust_by(books, wrong, asked.key, asked.change, asked.reason)
    remember(asked, books, entry)
    return entry


def settle(asked: Settle, books: Books) -> Entry:
    if answer := answered(asked, books):
        return entry_of(asked.tenant, answer.sequence, books)
    hold = books.hold(asked.tenant, asked.key)
    posted = _posted_cost(asked, hold, books)
    if fault := _not_settleable(posted, books):
        raise NotSettleable(asked.key, fault)
    if asked.usage is None and hold and hold.state is HoldState.PROVISIONAL:
        # What is recorded is the worst case, and a late capture still brings the truth.
        raise NotSettleable(asked.key, "its usage has not arrived; say what the provider billed")
    at = posted.occur_time if not books.is_closed(asked.tenant, posted.occur_time) else books.now
    # The model that answered stays recorded.
    price = price_of(posted.call, posted.price_version_id, posted.occur_time, books)
    usage = asked.usage or _recorded_usage(posted, price)
    take_back(books, EntryKind.SETTLE, posted, asked.key)
    kind = EntryKind.CAPTURE if hold else EntryKind.RECORD
    entry = post_cost(books, kind, posted.call, usage=usage, price=price, at=at)
    if hold:
        books.draft.holds[asked.tenant, asked.key] = replace(
            hold, state=HoldState.CAPTURED, posted_sequence=entry.sequence
        )
    remember(asked, books, entry)
    return entry


def close_period(asked: ClosePeriod, books: Books) -> Entry:
    """Closes every period before a time: new operations in it are rejected."""
    if answer := answered(asked, books):
        return entry_of(asked.tenant, answer.sequence, books)
    closed_before = books.head(asked.tenant).closed_before
    if asked.end_time > books.now:
        raise PeriodNotClosable(
            f"the period ends in the future, at {asked.end_time.isoformat()}; "
            "close it when it has passed"
        )
    if closed_before and asked.end_time <= closed_before:
        raise PeriodNotClosable(
            f"the books before {closed_before.isoformat()} are closed already; "
            "only what ends later can be closed"
        )
    call = Call(asked.tenant, asked.key, Subject(), sku="")
    entry = post(books, EntryKind.CLOSE, call, NOTHING, occur_time=asked.end_time)
    head = books.head(asked.tenant)
    books.draft.heads[asked.tenant] = replace(head, closed_before=asked.end_time)
    remember(asked, books, entry)
    return entry


def _not_final(entry: Entry, books: Books) -> str | None:
    if entry.kind not in COSTS:
        return f"a {entry.kind.value} is no cost"
    if entry.postings.provisional:
        return "it is provisional; capture, settle or release its hold"
    if books.corrections(entry.call.tenant, entry.sequence).is_taken_back:
        return "an earlier entry already corrects it"
    return None


def _not_adjustable(entry: Entry, asked: Adjust, books: Books) -> str | None:
    cost = entry.cost
    if cost is None:
        return "its price is unknown; import one that was valid at its time and settle its key"
    if cost.currency_code != asked.change.currency_code:
        return f"it is in {cost.currency_code}"
    adjusted = books.corrections(asked.tenant, entry.sequence).adjusted
    if cost.amount + adjusted + asked.change.amount < 0:
        return "less than nothing would be left of it"
    return None


def _posted_cost(asked: Settle, hold: Hold | None, books: Books) -> Entry:
    """Returns the present cost of a call that was held, or the only one that was recorded."""
    if hold:
        if not hold.posted_sequence:
            raise NotSettleable(asked.key, "it has none yet; capture it")
        return entry_of(asked.tenant, hold.posted_sequence, books)
    recorded = books.answer(asked.tenant, Record.name, asked.key)
    if not recorded:
        raise CallNotFound(asked.key)
    return entry_of(asked.tenant, recorded.sequence, books)


def _not_settleable(posted: Entry, books: Books) -> str | None:
    corrections = books.corrections(posted.call.tenant, posted.sequence)
    if corrections.is_taken_back:
        return "an earlier entry already took it back"
    if corrections.adjusted:
        return "it was adjusted; adjust it back first"
    is_estimate = posted.usage is not None and posted.usage.source is UsageSource.ESTIMATED
    if posted.cost is not None and not is_estimate:
        return "its usage is no estimate; adjust it"
    return None


def _recorded_usage(posted: Entry, price: PriceVersion | None) -> Usage:
    """Returns what a call of unknown cost used. Raises NotSettleable while its cost is unknown."""
    key, usage = posted.call.key, posted.usage
    if posted.cost is not None:
        raise NotSettleable(key, "it is known; say what the provider billed, as DIMENSION=AMOUNT")
    if usage is None or not usage.quantities:
        raise NotSettleable(key, "its usage is unknown; say what the provider billed")
    if price is None:
        at = posted.occur_time.isoformat(timespec="seconds")
        raise NotSettleable(key, f"{posted.call.sku} had no price at {at}; import one")
    whole = replace(usage, quantities=price.with_call(usage.quantities))
    if cost_of(whole, price, posted.occur_time) is None:
        raise NotSettleable(key, "its price does not cover what it used; import one that does")
    return usage
