"""Drafts journal entries and the budget movements that belong to them."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from cost_ledger.books import ZERO, Books
from cost_ledger.models import Call, Entry, EntryKind
from metering import Usage
from money import Money


def post(
    books: Books,
    kind: EntryKind,
    call: Call,
    *,
    amount: Money | None,
    price_version_id: str,
    usage: Usage | None = None,
    occur_time: datetime | None = None,
) -> Entry:
    """Appends an entry to the tenant's journal."""
    entry = Entry(
        sequence=books.next_sequence(call.tenant),
        kind=kind,
        call=call,
        usage=usage,
        amount=amount,
        price_version_id=price_version_id,
        occur_time=occur_time or books.now,
        create_time=books.now,
    )
    return _append(books, entry)


def correct(books: Books, kind: EntryKind, wrong: Entry, key: str, reason: str = "") -> Entry:
    """Appends the opposite of an entry, at the time of what it corrects, and moves it back."""
    entry = replace(
        wrong,
        sequence=books.next_sequence(wrong.call.tenant),
        kind=kind,
        call=replace(wrong.call, key=key),
        amount=None if wrong.amount is None else -wrong.amount,
        create_time=books.now,
        corrects_sequence=wrong.sequence,
        reason=reason,
    )
    books.draft.corrected.add((wrong.call.tenant, wrong.sequence))
    move(books, wrong.call, posted=entry.amount)
    return _append(books, entry)


def move(books: Books, call: Call, posted: Money | None = None, held: Money | None = None) -> None:
    """Adds to every budget window of the call that counts the currency."""
    for window in call.windows:
        books.draft.move(
            window, _amount(posted, window.currency_code), _amount(held, window.currency_code)
        )


def _append(books: Books, entry: Entry) -> Entry:
    books.draft.entries[entry.call.tenant, entry.sequence] = entry
    return entry


def _amount(money: Money | None, currency_code: str) -> Decimal:
    return money.amount if money and money.currency_code == currency_code else ZERO
