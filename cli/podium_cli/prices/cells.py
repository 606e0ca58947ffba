"""What the cells of a price list may hold, so that a wrong one is named by line and column."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from podium.common.v1 import usage_pb2
from podium.ledger.v1 import price_book_service_pb2 as pb
from podium_cli.documents.documents import InvalidDocument
from podium_kit.wire import enum_words


class InvalidCell(InvalidDocument):
    """A cell holds something else than its column takes."""

    def __init__(self, path: Path, line: int, column: str, value: str, allowed: str) -> None:
        written = f"is {value!r}" if value else "is empty"
        super().__init__(
            path, f"line {line}: {column} {written}", f"write {allowed}; nothing was changed"
        )


@dataclass(frozen=True)
class CellKind:
    """A test of a cell, and what passes it in words."""

    holds: Callable[[str], bool]
    allowed: str


def _matching(pattern: str, allowed: str) -> CellKind:
    return CellKind(lambda text: re.fullmatch(pattern, text) is not None, allowed)


def _word_of(words: list[str], several: bool = False) -> CellKind:
    def holds(text: str) -> bool:
        given = text.split() if several else [text]
        return {word.lower().replace("-", "_") for word in given} <= set(words)

    which = "some of" if several else "one of"
    return CellKind(holds, f"{which} {', '.join(words)}")


def _is_moment(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


DECIMAL = _matching(r"\d+(\.\d+)?", "a decimal number of at least 0, like 1.25")
TOKENS = _matching(r"\d+", "a whole number of tokens, like 200000")
TIME_OF_DAY = _matching(r"([01]\d|2[0-3]):[0-5]\d|24:00", "a time of day in UTC, like 08:30")
MOMENT = CellKind(_is_moment, "a time with its zone, like 2026-10-31T00:00:00Z")
KINDS: Mapping[str, CellKind] = {
    "sku": _matching(r".+", "what is priced, like openai/gpt-5"),
    "dimension": _word_of(enum_words(usage_pb2.UsageDimension.DESCRIPTOR)),
    "unit_price": DECIMAL,
    "per": DECIMAL,
    "currency": _matching(r"[A-Z]{3}", "an ISO 4217 code, like USD"),
    "from_tokens": TOKENS,
    "until_tokens": TOKENS,
    "weekdays": _word_of(enum_words(pb.Weekday.DESCRIPTOR), several=True),
    "start": TIME_OF_DAY,
    "end": TIME_OF_DAY,
    "valid_from": MOMENT,
    "valid_until": MOMENT,
}
REQUIRED = ("sku", "dimension", "unit_price")


def check_cells(path: Path, line: int, row: Mapping[str, str]) -> None:
    """Raises InvalidCell for the first cell that does not hold what its column takes."""
    for column, kind in KINDS.items():
        text = row.get(column) or ""
        if (text or column in REQUIRED) and not kind.holds(text):
            raise InvalidCell(path, line, column, text, kind.allowed)
