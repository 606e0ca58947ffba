from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from cost_ledger.errors import EntryNotFound, HoldNotFound, KeyReused
from cost_ledger.models import (
    ZERO,
    Call,
    Entry,
    EntryKind,
    Hold,
    IdempotencyRecord,
    Postings,
    Rejection,
)
from cost_ledger.posting import postings
from cost_ledger.posting.books import Books, Corrections
from cost_ledger.posting.chain import link
from cost_ledger.posting.operations import (
    Adjust,
    Capture,
    ClosePeriod,
    Record,
    Reserve,
    Settle,
)
from podium_kit.metering import Quantity, Usage
from podium_kit.money import Money

# Operations whose answer is kept under their key; every name has its own keys.
Keyed = Reserve | Capture | Record | Adjust | Settle | ClosePeriod


def answer_of(asked: Keyed, books: Books) -> IdempotencyRecord | None:
    """Returns the answer of the key, whatever the content."""
    if isinstance(asked, Reserve | Capture) and (hold := books.hold(asked.tenant, asked.key)):
        return hold.reserved if isinstance(asked, Reserve) else hold.captured
    return books.answer(asked.tenant, asked.name, asked.key)


def answered(asked: Keyed, books: Books) -> IdempotencyRecord | None:
    """Returns the answer of the key, if it has one. Raises KeyReused when the content differs."""
    answer = answer_of(asked, books)
    if answer and answer.request_hash != asked.request_hash():
        raise KeyReused(asked.name, asked.key)
    return answer


def remember(
    asked: Keyed,
    books: Books,
    entry: Entry | None = None,
    rejection: Rejection | None = None,
) -> None:
    """Keeps an answer under its key. A hold keeps its own."""
    sequence = entry.sequence if entry else 0
    occur_time = asked.occur_time if isinstance(asked, Record) else None
    answer = IdempotencyRecord(asked.request_hash(), sequence, rejection, occur_time)
    books.draft.answers[asked.tenant, asked.name, asked.key] = answer


def hold_of(tenant: str, key: str, books: Books) -> Hold:
    hold = books.hold(tenant, key)
    if hold is None:
        raise HoldNotFound(key)
    return hold


def entry_of(tenant: str, sequence: int, books: Books) -> Entry:
    entry = books.entry(tenant, sequence)
    if entry is None:
        raise EntryNotFound(sequence)
    return entry


def post(
    books: Books,
    kind: EntryKind,
    call: Call,
    posted: Postings,
    *,
    price_version_id: str = "",
    usage: Usage | None = None,
    worst_case: tuple[Quantity, ...] = (),
    dispatched: bool = False,
    occur_time: datetime | None = None,
    expire_time: datetime | None = None,
    reason: str = "",
) -> Entry:
    entry = Entry(
        sequence=books.head(call.tenant).sequence + 1,
        kind=kind,
        call=call,
        postings=posted,
        price_version_id=price_version_id,
        occur_time=occur_time or books.now,
        create_time=books.now,
        usage=usage,
        worst_case=worst_case,
        dispatched=dispatched,
        expire_time=expire_time,
        reason=reason,
    )
    return _append(books, entry)


def post_hold(
    books: Books, kind: EntryKind, hold: Hold, posted: Postings, reason: str = ""
) -> Entry:
    return post(
        books,
        kind,
        hold.call,
        posted,
        price_version_id=hold.price_version_id,
        worst_case=hold.worst_case,
        dispatched=hold.dispatched,
        expire_time=hold.expire_time,
        reason=reason,
    )


def take_back(books: Books, kind: EntryKind, wrong: Entry, key: str, reason: str = "") -> Entry:
    """Appends the opposite of a cost, and subtracts it from the budgets that counted it."""
    sequence = wrong.sequence
    adjusted = books.corrections(wrong.call.tenant, sequence).adjusted
    books.draft.corrections[wrong.call.tenant, sequence] = Corrections(True, adjusted)
    return _correct(
        books, kind, wrong, postings.opposite_cost(wrong.postings), key=key, reason=reason
    )


def adjust_by(books: Books, wrong: Entry, key: str, change: Money, reason: str) -> Entry:
    sequence = wrong.sequence
    adjusted = books.corrections(wrong.call.tenant, sequence).adjusted + change.amount
    books.draft.corrections[wrong.call.tenant, sequence] = Corrections(adjusted=adjusted)
    return _correct(books, EntryKind.ADJUST, wrong, postings.spend(change), key=key, reason=reason)


def _correct(
    books: Books, kind: EntryKind, wrong: Entry, posted: Postings, *, key: str, reason: str
) -> Entry:
    """Appends a correction at the time of what it corrects, or now where that period is closed."""
    is_closed = books.is_closed(wrong.call.tenant, wrong.occur_time)
    entry = replace(
        wrong,
        sequence=books.head(wrong.call.tenant).sequence + 1,
        kind=kind,
        call=replace(wrong.call, key=key),
        postings=posted,
        usage=None if kind is EntryKind.ADJUST else wrong.usage,
        occur_time=books.now if is_closed else wrong.occur_time,
        create_time=books.now,
        corrects_sequence=wrong.sequence,
        reason=reason,
    )
    move(books, wrong.call, posted=entry.cost)
    return _append(books, entry)


def move(books: Books, call: Call, posted: Money | None = None, held: Money | None = None) -> None:
    for window in call.windows:
        counts = window.model in ("", call.subject.model)
        books.draft.add_delta(
            window,
            _amount(posted if counts else None, window.currency_code),
            _amount(held, window.currency_code),
        )


def _append(books: Books, entry: Entry) -> Entry:
    tenant = entry.call.tenant
    head = books.head(tenant)
    chained = replace(entry, hash=link(head.hash, entry))
    books.draft.entries[tenant, entry.sequence] = chained
    books.draft.heads[tenant] = replace(head, sequence=entry.sequence, hash=chained.hash)
    return chained


def _amount(money: Money | None, currency_code: str) -> Decimal:
    return money.amount if money and money.currency_code == currency_code else ZERO
