"""A batch: operations that are applied in order, all of them or none."""

from typing import assert_never

from cost_ledger import decisions, decisions_corrections
from cost_ledger.books import Books
from cost_ledger.corrections import Adjust, ClosePeriod, Reverse, Settle
from cost_ledger.models import Entry, Hold, Refusal
from cost_ledger.operations import Capture, Dispatch, Expire, Extend, Record, Release, Reserve
from rpckit.errors import DomainError

Correction = Reverse | Adjust | Settle | ClosePeriod
Operation = Reserve | Extend | Dispatch | Capture | Release | Record | Expire | Correction
Batch = tuple[Operation, ...]
Outcome = Hold | Refusal | Entry | None


def decide(batch: Batch, books: Books) -> tuple[Outcome, ...] | DomainError:
    """The outcome of every operation, or the error that refuses the whole batch."""
    try:
        outcomes = tuple(_decide(operation, books) for operation in batch)
    except DomainError as error:
        books.discard()
        return error
    books.accept()
    return outcomes


def _decide(operation: Operation, books: Books) -> Outcome:  # noqa: PLR0911  one per operation
    match operation:
        case Reserve():
            return decisions.reserve(operation, books)
        case Capture():
            return decisions.capture(operation, books)
        case Record():
            return decisions.record(operation, books)
        case Release():
            return decisions.release(operation, books)
        case Extend():
            return decisions.extend(operation, books)
        case Dispatch():
            return decisions.dispatch(operation, books)
        case Expire():
            return decisions.expire(operation, books)
        case Reverse():
            return decisions_corrections.reverse(operation, books)
        case Adjust():
            return decisions_corrections.adjust(operation, books)
        case Settle():
            return decisions_corrections.settle(operation, books)
        case ClosePeriod():
            return decisions_corrections.close_period(operation, books)
        case _:
            assert_never(operation)
