"""What puts a journal right, and what ends a period; each carries a key of its own."""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from cost_ledger.checks import check_key, check_money, check_text, check_usage
from cost_ledger.errors import InvalidOperation
from cost_ledger.fingerprint import fingerprint, moment_text, usage_text
from podium_kit.metering import Usage
from podium_kit.money import Money


@dataclass(frozen=True, slots=True)
class Reverse:
    """Post the opposite of an earlier entry."""

    name: ClassVar[str] = "reverse"
    tenant: str
    key: str
    sequence: int
    reason: str

    def __post_init__(self) -> None:
        check_key(self.key)
        check_correction(self.sequence, self.reason)

    def request_hash(self) -> str:
        return fingerprint(sequence=self.sequence, reason=self.reason)


@dataclass(frozen=True, slots=True)
class Adjust:
    """Post the difference between an earlier cost and the truth."""

    name: ClassVar[str] = "adjust"
    tenant: str
    key: str
    sequence: int
    change: Money
    reason: str

    def __post_init__(self) -> None:
        check_key(self.key)
        check_correction(self.sequence, self.reason)
        check_money("change", self.change)
        if not self.change.amount:
            raise InvalidOperation("change is 0; there is nothing to adjust")

    def request_hash(self) -> str:
        return fingerprint(sequence=self.sequence, change=str(self.change), reason=self.reason)


@dataclass(frozen=True, slots=True)
class Settle:
    """Replace a provisional or estimated cost by the true one. `key` is the hold's."""

    name: ClassVar[str] = "settle"
    tenant: str
    key: str
    usage: Usage

    def __post_init__(self) -> None:
        check_key(self.key)
        check_usage(self.usage)

    def request_hash(self) -> str:
        return fingerprint(usage=usage_text(self.usage))


@dataclass(frozen=True, slots=True)
class ClosePeriod:
    """Reject from now on what occurred before a time."""

    name: ClassVar[str] = "close"
    tenant: str
    key: str
    end_time: datetime

    def __post_init__(self) -> None:
        check_key(self.key)

    def request_hash(self) -> str:
        return fingerprint(end_time=moment_text(self.end_time))


def check_correction(sequence: int, reason: str) -> None:
    check_text("reason", reason)
    if sequence < 1:
        raise InvalidOperation("sequence is unset; name the entry to correct")
    if not reason:
        raise InvalidOperation("reason is unset; the auditor will ask")
