from collections.abc import Callable
from typing import Any

from cost_ledger.models import Entry, Hold, Rejection
from cost_ledger.posting import calls, corrections
from cost_ledger.posting.books import Books
from cost_ledger.posting.operations import (
    Adjust,
    Capture,
    ClosePeriod,
    Dispatch,
    Expire,
    Record,
    Release,
    Reserve,
    Settle,
)
from podium_kit.rpc.errors import DomainError

Correction = Adjust | Settle | ClosePeriod
Operation = Reserve | Dispatch | Capture | Release | Record | Expire | Correction
Batch = tuple[Operation, ...]
Outcome = Hold | Rejection | Entry | None
DECISIONS: dict[type[Operation], Callable[[Any, Books], Outcome]] = {
    Reserve: calls.reserve,
    Capture: calls.capture,
    Record: calls.record,
    Release: calls.release,
    Dispatch: calls.dispatch,
    Expire: calls.expire,
    Adjust: corrections.adjust,
    Settle: corrections.settle,
    ClosePeriod: corrections.close_period,
}


def decide(batch: Batch, books: Books) -> tuple[Outcome, ...] | DomainError:
    """The outcome of every operation, or the error that rejects the whole batch."""
    try:
        outcomes = tuple(DECISIONS[type(operation)](operation, books) for operation in batch)
    except DomainError as error:
        books.discard()
        return error
    books.accept()
    return outcomes
