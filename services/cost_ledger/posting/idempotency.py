from cost_ledger.errors import EntryNotFound, HoldNotFound, KeyReused
from cost_ledger.models import Entry, Hold, Rejection
from cost_ledger.posting.books import Books, IdempotencyRecord
from cost_ledger.posting.operations import (
    Adjust,
    Capture,
    ClosePeriod,
    Record,
    Reserve,
    Reverse,
    Settle,
)

# Operations whose answer is kept under their key; every name has its own keys.
Keyed = Reserve | Capture | Record | Reverse | Adjust | Settle | ClosePeriod


def answered(asked: Keyed, books: Books) -> IdempotencyRecord | None:
    """Returns the answer of the key, if it has one. Raises KeyReused when the content differs."""
    answer = books.answer(asked.tenant, asked.name, asked.key)
    if answer and answer.request_hash != asked.request_hash():
        raise KeyReused(asked.name, asked.key)
    return answer


def remember(
    asked: Keyed,
    books: Books,
    entry: Entry | None = None,
    rejection: Rejection | None = None,
) -> None:
    sequence = entry.sequence if entry else 0
    occur_time = asked.occur_time if isinstance(asked, Capture | Record) else None
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
