"""A batch: operations that are applied in order, all of them or none."""

from typing import assert_never

from cost_ledger.decisions import calls, correcting
from cost_ledger.decisions.books import Books
from cost_ledger.decisions.corrections import Adjust, ClosePeriod, Reverse, Settle
from cost_ledger.decisions.operations import (
    Capture,
    Dispatch,
    Expire,
    Extend,
    Record,
    Release,
    Reserve,
)
from cost_ledger.models import Entry, Hold, Rejection
from podium_kit.rpc.errors import DomainError

Correction = Reverse | Adjust | Settle | ClosePeriod
Operation = Reserve | Extend | Dispatch | Capture | Release | Record | Expire | Correction
Batch = tuple[Operation, ...]
Outcome = Hold | Rejection | Entry | None


def decide(batch: Batch, books: Books) -> tuple[Outcome, ...] | DomainError:
    """The outcome of every operation, or the error that rejects the whole batch."""
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
            return calls.reserve(operation, books)
        case Capture():
            return calls.capture(operation, books)
        case Record():
            return calls.record(operation, books)
        case Release():
            return calls.release(operation, books)
        case Extend():
            return calls.extend(operation, books)
        case Dispatch():
            return calls.dispatch(operation, books)
        case Expire():
            return calls.expire(operation, books)
        case Reverse():
            return correcting.reverse(operation, books)
        case Adjust():
            return correcting.adjust(operation, books)
        case Settle():
            return correcting.settle(operation, books)
        case ClosePeriod():
            return correcting.close_period(operation, books)
        case _:
            assert_never(operation)
