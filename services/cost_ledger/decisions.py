"""Decides one operation against the books and drafts every row it changes.

Nothing here waits or touches a database, so every rule can be tested as a function.
The same key with the same content gets the same answer; refusals are answers too.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from cost_ledger.admission import admit, windows_of
from cost_ledger.books import Answer, Books
from cost_ledger.errors import (
    EntryNotFound,
    HoldClosed,
    HoldNotFound,
    InvalidOperation,
    KeyReused,
    NotReversible,
)
from cost_ledger.journal import correct, move, post
from cost_ledger.models import Call, Entry, EntryKind, Hold, HoldState, Refusal
from cost_ledger.operations import (
    Batch,
    Capture,
    Expire,
    Operation,
    Record,
    Release,
    Reserve,
    Reverse,
)
from cost_ledger.pricing import PriceVersion
from metering import Usage, UsageSource
from rpckit.errors import DomainError

Outcome = Hold | Refusal | Entry | None
REVERSIBLE = {EntryKind.CAPTURE, EntryKind.RECORD}
CLOCK_SKEW_MAX = timedelta(minutes=5)


def decide(batch: Batch, books: Books) -> tuple[Outcome, ...] | DomainError:
    """The outcome of every operation, or the error that refuses the whole batch."""
    try:
        outcomes = tuple(_decide(operation, books) for operation in batch)
    except DomainError as error:
        books.discard()
        return error
    books.accept()
    return outcomes


def _decide(operation: Operation, books: Books) -> Outcome:
    match operation:
        case Reserve():
            return reserve(operation, books)
        case Capture():
            return capture(operation, books)
        case Release():
            return release(operation, books)
        case Record():
            return record(operation, books)
        case Reverse():
            return reverse(operation, books)
        case Expire():
            return expire(operation, books)


def reserve(asked: Reserve, books: Books) -> Hold | Refusal:
    """Holds the worst case, or says why not."""
    if answer := _answered(asked, books):
        return answer.refusal or replace(
            _hold(asked, books), state=HoldState.OPEN, posted_sequence=0
        )
    outcome = admit(asked, books)
    if isinstance(outcome, Refusal):
        _remember(asked, books, refusal=outcome)
        return outcome
    move(books, outcome.call, held=outcome.amount)
    entry = post(
        books,
        EntryKind.RESERVE,
        outcome.call,
        amount=outcome.amount,
        price_version_id=outcome.price_version_id,
    )
    books.draft.holds[asked.tenant, asked.key] = outcome
    _remember(asked, books, entry)
    return outcome


def capture(asked: Capture, books: Books) -> Entry:
    """Posts the truth, also above the hold and in place of a provisional cost."""
    if answer := _answered(asked, books):
        return _entry(asked.tenant, answer.sequence, books)
    hold = _hold(asked, books)
    if hold.state in (HoldState.RELEASED, HoldState.CAPTURED):
        raise HoldClosed(asked.key, hold.state.value, "captured")
    _check_not_in_future(asked.occur_time, books)
    _withdraw(hold, books)
    at = asked.occur_time or books.now
    price = _price_of(hold, at, books)
    entry = _post_cost(books, EntryKind.CAPTURE, hold.call, usage=asked.usage, price=price, at=at)
    _close(hold, HoldState.CAPTURED, books, entry.sequence)
    _remember(asked, books, entry)
    return entry


def release(asked: Release, books: Books) -> Hold | None:
    """Gives a hold back; None when it was to be left alone."""
    if asked.only_if_open and not _is_open(asked, books):
        return None
    hold = _hold(asked, books)
    if hold.state is HoldState.CAPTURED:
        raise HoldClosed(asked.key, hold.state.value, "released")
    if hold.state is HoldState.RELEASED:
        return hold
    _withdraw(hold, books)
    post(
        books,
        EntryKind.RELEASE,
        hold.call,
        amount=hold.amount,
        price_version_id=hold.price_version_id,
    )
    return _close(hold, HoldState.RELEASED, books)


def record(asked: Record, books: Books) -> Entry:
    """Posts a cost without a hold; budgets count it but cannot stop it."""
    if answer := _answered(asked, books):
        return _entry(asked.tenant, answer.sequence, books)
    _check_not_in_future(asked.occur_time, books)
    at = asked.occur_time or books.now
    windows = windows_of(asked.tenant, asked.subject, at, books)
    call = Call(
        asked.tenant,
        asked.key,
        asked.subject,
        asked.sku,
        windows,
        asked.service_class,
        asked.region,
    )
    price = books.price(asked.tenant, asked.sku, at, asked.service_class, asked.region)
    entry = _post_cost(books, EntryKind.RECORD, call, usage=asked.usage, price=price, at=at)
    _remember(asked, books, entry)
    return entry


def reverse(asked: Reverse, books: Books) -> Entry:
    """Posts the opposite of a final cost and gives its budgets the money back."""
    if answer := _answered(asked, books):
        return _entry(asked.tenant, answer.sequence, books)
    wrong = _entry(asked.tenant, asked.sequence, books)
    _check_reversible(wrong, books)
    entry = correct(books, EntryKind.REVERSE, wrong, asked.key, asked.reason)
    _remember(asked, books, entry)
    return entry


def expire(asked: Expire, books: Books) -> Entry | None:
    """Posts the worst case of an overdue hold: the call may have been made."""
    hold = books.hold(asked.tenant, asked.key)
    if hold is None or hold.state is not HoldState.OPEN or hold.expire_time > books.now:
        return None
    _withdraw(hold, books)
    entry = _post_provisional(hold, books)
    _close(hold, HoldState.PROVISIONAL, books, entry.sequence)
    return entry


def _price_of(hold: Hold, at: datetime, books: Books) -> PriceVersion | None:
    """The price the hold was admitted at; of an unpriced one, what is known by now."""
    call = hold.call
    pinned = books.price_version(call.tenant, call.sku, hold.price_version_id)
    return pinned or books.price(call.tenant, call.sku, at, call.service_class, call.region)


def _post_cost(
    books: Books,
    kind: EntryKind,
    call: Call,
    *,
    usage: Usage,
    price: PriceVersion | None,
    at: datetime,
) -> Entry:
    """Posts what a usage costs, unknown when the price is, and counts it in the budgets."""
    amount = price.cost(usage.quantities, at) if price else None
    move(books, call, posted=amount)
    return post(
        books,
        kind,
        call,
        amount=amount,
        price_version_id=price.id if price else "",
        usage=usage,
        occur_time=at,
    )


def _post_provisional(hold: Hold, books: Books) -> Entry:
    """Posts the whole hold, at the time the call was about to be made."""
    move(books, hold.call, posted=hold.amount)
    return post(
        books,
        EntryKind.CAPTURE,
        hold.call,
        amount=hold.amount,
        price_version_id=hold.price_version_id,
        usage=Usage(hold.worst_case, UsageSource.ESTIMATED),
        occur_time=hold.create_time,
    )


def _withdraw(hold: Hold, books: Books) -> None:
    """Takes back what stands for the call so far: the held money or the provisional cost."""
    if hold.state is HoldState.OPEN:
        move(books, hold.call, held=None if hold.amount is None else -hold.amount)
        return
    provisional = _entry(hold.call.tenant, hold.posted_sequence, books)
    correct(books, EntryKind.SETTLE, provisional, hold.call.key)


def _close(hold: Hold, state: HoldState, books: Books, posted_sequence: int = 0) -> Hold:
    closed = replace(hold, state=state, posted_sequence=posted_sequence)
    books.draft.holds[hold.call.tenant, hold.call.key] = closed
    return closed


def _answered(asked: Reserve | Capture | Record | Reverse, books: Books) -> Answer | None:
    """The answer the key already has. Raises KeyReused when the content differs."""
    answer = books.answer(asked.tenant, asked.name, asked.key)
    if answer and answer.request_hash != asked.request_hash():
        raise KeyReused(asked.name, asked.key)
    return answer


def _remember(
    asked: Reserve | Capture | Record | Reverse,
    books: Books,
    entry: Entry | None = None,
    refusal: Refusal | None = None,
) -> None:
    sequence = entry.sequence if entry else 0
    answer = Answer(asked.request_hash(), sequence, refusal)
    books.draft.answers[asked.tenant, asked.name, asked.key] = answer


def _hold(asked: Reserve | Capture | Release, books: Books) -> Hold:
    hold = books.hold(asked.tenant, asked.key)
    if hold is None:
        raise HoldNotFound(asked.key)
    return hold


def _is_open(asked: Release, books: Books) -> bool:
    hold = books.hold(asked.tenant, asked.key)
    return hold is not None and hold.state is HoldState.OPEN


def _entry(tenant: str, sequence: int, books: Books) -> Entry:
    entry = books.entry(tenant, sequence)
    if entry is None:
        raise EntryNotFound(sequence)
    return entry


def _check_not_in_future(occur_time: datetime | None, books: Books) -> None:
    if occur_time and occur_time > books.now + CLOCK_SKEW_MAX:
        raise InvalidOperation("occur_time is in the future; leave it unset for now")


def _check_reversible(entry: Entry, books: Books) -> None:
    if entry.kind not in REVERSIBLE:
        raise NotReversible(entry.sequence, f"a {entry.kind.value} is no cost")
    hold = books.hold(entry.call.tenant, entry.call.key)
    provisional = hold is not None and hold.state is HoldState.PROVISIONAL
    if provisional and entry.kind is EntryKind.CAPTURE:
        raise NotReversible(entry.sequence, "it is provisional; capture or release its hold")
    if books.is_corrected(entry.call.tenant, entry.sequence):
        raise NotReversible(entry.sequence, "an earlier entry already corrects it")
