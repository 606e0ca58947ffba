import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum

from cost_ledger.checks import check_text
from cost_ledger.errors import InvalidInvoice
from cost_ledger.exports.models import Month
from cost_ledger.models import Entry
from podium_kit.money import Money

PROVIDER = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


class MatchState(StrEnum):
    MATCHED = "matched"
    ROUNDED = "rounded"
    DIFFERENT = "different"
    MISSING_IN_LEDGER = "missing_in_ledger"
    MISSING_IN_INVOICE = "missing_in_invoice"
    DOUBLED_IN_INVOICE = "doubled_in_invoice"
    DOUBLED_IN_LEDGER = "doubled_in_ledger"
    LATE = "late"
    LATE_ROUNDED = "late_rounded"
    LATE_DIFFERENT = "late_different"


@dataclass(frozen=True, slots=True)
class Invoice:
    """A provider's invoice of one month; the provider's SKUs start with its name and a slash."""

    id: str
    provider: str
    month: Month

    def __post_init__(self) -> None:
        check_text("invoice.id", self.id)
        if not self.id:
            raise InvalidInvoice("invoice.id is unset; give one you keep for retries")
        if not PROVIDER.fullmatch(self.provider):
            raise InvalidInvoice(
                f"provider {self.provider[:60]!r} is no name like openai; "
                "use what the provider's SKUs start with"
            )


@dataclass(frozen=True, slots=True)
class InvoiceLine:
    """One billed call. The decimals of its amount say how the provider rounds."""

    position: int
    provider_request_id: str
    sku: str
    occur_time: datetime
    amount: Money

    def __post_init__(self) -> None:
        check_text("provider_request_id", self.provider_request_id)
        check_text("sku", self.sku)
        if self.position < 1:
            raise InvalidInvoice(f"line {self.position} has no position from 1 on")
        if not self.provider_request_id and not self.sku:
            raise InvalidInvoice(
                f"line {self.position} names neither a request nor a SKU; it cannot be compared"
            )

    @property
    def last_place(self) -> Decimal:
        """One unit of the last decimal that is written on the invoice."""
        exponent = self.amount.amount.as_tuple().exponent
        return Decimal(1).scaleb(min(int(exponent), 0))

    @property
    def day(self) -> str:
        return self.occur_time.astimezone(UTC).date().isoformat()


@dataclass(frozen=True, slots=True)
class Match:
    state: MatchState
    line: InvoiceLine | None = None
    entry: Entry | None = None

    @property
    def difference(self) -> Money | None:
        billed = self.line.amount if self.line else None
        posted = self.entry.cost if self.entry else None
        if self.line and self.entry:
            same = billed and posted and billed.currency_code == posted.currency_code
            return billed - posted if billed and posted and same else None
        return billed or (-posted if posted else None)
