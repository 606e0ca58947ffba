"""Decides one operation against the books and drafts every row it changes.

Nothing here waits or touches a database, so every rule can be tested as a function.
The same key with the same content gets the same answer; rejections are answers too.
"""

from dataclasses import replace

from cost_ledger.errors import HoldClosed
from cost_ledger.models import (
    Call,
    Entry,
    EntryKind,
    Hold,
    HoldState,
    IdempotencyRecord,
    Rejection,
    RejectionReason,
)
from cost_ledger.posting import postings
from cost_ledger.posting.admission import admit, windows_of
from cost_ledger.posting.books import Books
from cost_ledger.posting.costs import (
    answered_call,
    check_time,
    post_cost,
    post_provisional,
    withdraw,
)
from cost_ledger.posting.drafts import answered, entry_of, hold_of, move, post_hold, remember
from cost_ledger.posting.operations import (
    Capture,
    Dispatch,
    Expire,
    Record,
    Release,
    Reserve,
)


def reserve(asked: Reserve, books: Books) -> Hold | Rejection:
    if answer := answered(asked, books):
        return answer.rejection or _as_reserved(asked, answer.sequence, books)
    outcome = admit(asked, books)
    if isinstance(outcome, Rejection):
        if outcome.reason is not RejectionReason.BUDGET_HELD:
            remember(asked, books, rejection=outcome)
        return outcome
    move(books, outcome.call, held=outcome.amount)
    entry = post_hold(books, EntryKind.RESERVE, outcome, postings.hold(outcome.amount))
    reserved = IdempotencyRecord(asked.request_hash(), entry.sequence)
    return _draft(replace(outcome, reserved=reserved), books)


def dispatch(asked: Dispatch, books: Books) -> Hold:
    hold = hold_of(asked.tenant, asked.key, books)
    if hold.dispatched:
        return hold
    if hold.state is not HoldState.OPEN:
        raise HoldClosed(asked.key, hold.state.value, "dispatched")
    dispatched = replace(hold, dispatched=True)
    post_hold(books, EntryKind.DISPATCH, dispatched, postings.NOTHING)
    return _draft(dispatched, books)


def capture(asked: Capture, books: Books) -> Entry:
    """Posts the truth, also above the hold and in place of a provisional cost.

    An unknown usage posts the worst case until the truth is posted: otherwise calls that are cut
    off would never end a budget.
    """
    if answer := answered(asked, books):
        return entry_of(asked.tenant, answer.sequence, books)
    hold = hold_of(asked.tenant, asked.key, books)
    if hold.state in (HoldState.RELEASED, HoldState.CAPTURED):
        raise HoldClosed(asked.key, hold.state.value, "captured")
    check_time(asked.tenant, asked.occur_time, books)
    if asked.usage.unusable_reason and hold.amount is not None:
        if hold.state is HoldState.PROVISIONAL:
            return entry_of(asked.tenant, hold.posted_sequence, books)
        return _provisional(hold, books)
    at = asked.occur_time or books.now
    ended = withdraw(hold, books)
    call, price = answered_call(hold, asked.answered_by, at, books)
    served_as = asked.usage.service_class
    served = books.price(call.tenant, call.sku, at, served_as, call.region) if served_as else None
    if served is not None:
        # Another class than money was held for, with a price of its own.
        call, price = replace(call, service_class=served_as), served
    entry = post_cost(
        books, EntryKind.CAPTURE, call, usage=asked.usage, price=price, at=at, ended=ended
    )
    captured = IdempotencyRecord(asked.request_hash(), entry.sequence)
    _close(replace(hold, captured=captured), HoldState.CAPTURED, books, entry.sequence)
    return entry


def release(asked: Release, books: Books) -> Hold | None:
    """Releases a hold; None where the request left it unchanged."""
    if asked.only_if_open and not _is_open(asked, books):
        return None
    hold = hold_of(asked.tenant, asked.key, books)
    if hold.state is HoldState.CAPTURED:
        raise HoldClosed(asked.key, hold.state.value, "released")
    return hold if hold.state is HoldState.RELEASED else _release(hold, books, asked.reason)


def record(asked: Record, books: Books) -> Entry:
    """Posts a cost without a hold; budgets count it but cannot stop it."""
    if answer := answered(asked, books):
        return entry_of(asked.tenant, answer.sequence, books)
    check_time(asked.tenant, asked.occur_time, books)
    at = asked.occur_time or books.now
    call = Call(
        asked.tenant,
        asked.key,
        asked.subject,
        asked.sku,
        windows_of(asked.tenant, asked.subject, asked.occur_time, books),
        asked.service_class,
        asked.region,
        asked.policy_version,
    )
    price = books.price(asked.tenant, asked.sku, at, asked.service_class, asked.region)
    entry = post_cost(books, EntryKind.RECORD, call, usage=asked.usage, price=price, at=at)
    remember(asked, books, entry)
    return entry


def expire(asked: Expire, books: Books) -> Entry | Hold | None:
    """Ends an overdue hold: the worst case of a call that was made, nothing of one that was not."""
    hold = books.hold(asked.tenant, asked.key)
    if hold is None or hold.state is not HoldState.OPEN or hold.expire_time > books.now:
        return None
    if not hold.dispatched:
        return _release(hold, books)
    return _provisional(hold, books)


def _provisional(hold: Hold, books: Books) -> Entry:
    entry = post_provisional(hold, withdraw(hold, books), books)
    _close(hold, HoldState.PROVISIONAL, books, entry.sequence)
    return entry


def _release(hold: Hold, books: Books, reason: str = "") -> Hold:
    ended = withdraw(hold, books)
    post_hold(books, EntryKind.RELEASE, hold, ended, reason)
    return _close(hold, HoldState.RELEASED, books)


def _as_reserved(asked: Reserve, sequence: int, books: Books) -> Hold:
    """Returns the hold of the first answer, regardless of its present state."""
    entry = entry_of(asked.tenant, sequence, books)
    assert entry.expire_time is not None  # every reserve has one
    return Hold(
        call=entry.call,
        worst_case=entry.worst_case,
        amount=entry.amount,
        state=HoldState.OPEN,
        price_version_id=entry.price_version_id,
        create_time=entry.create_time,
        expire_time=entry.expire_time,
        dispatched=entry.dispatched,
        fallbacks=hold_of(asked.tenant, asked.key, books).fallbacks,
    )


def _draft(hold: Hold, books: Books) -> Hold:
    books.draft.holds[hold.call.tenant, hold.call.key] = hold
    return hold


def _close(hold: Hold, state: HoldState, books: Books, posted_sequence: int = 0) -> Hold:
    return _draft(replace(hold, state=state, posted_sequence=posted_sequence), books)


def _is_open(asked: Release, books: Books) -> bool:
    hold = books.hold(asked.tenant, asked.key)
    return hold is not None and hold.state is HoldState.OPEN
