import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from cost_ledger.errors import InvalidMonth
from cost_ledger.models import Entry, EntryKind
from cost_ledger.prices.components import EVERY_SIZE, EXACT, PriceComponent
from cost_ledger.prices.models import PriceHistory, PriceVersion
from podium_kit.metering import Quantity, UsageSource
from podium_kit.money import Money

# The months beside one are asked for, too, and no calendar holds a year 0 or 10000.
WRITTEN = re.compile(r"(?!9999)([1-9][0-9]{3})-(0[1-9]|1[0-2])")


@dataclass(frozen=True, slots=True, order=True)
class Month:
    year: int
    number: int

    @classmethod
    def parse(cls, text: str) -> "Month":
        match = WRITTEN.fullmatch(text)
        if not match:
            raise InvalidMonth(text)
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def of(cls, moment: datetime) -> "Month":
        utc = moment.astimezone(UTC)
        return cls(utc.year, utc.month)

    @property
    def start(self) -> datetime:
        return datetime(self.year, self.number, 1, tzinfo=UTC)

    @property
    def end(self) -> datetime:
        return self.next().start

    def next(self) -> "Month":
        return self.moved(1)

    def moved(self, months: int) -> "Month":
        count = self.year * 12 + self.number - 1 + months
        return Month(count // 12, count % 12 + 1)

    def __str__(self) -> str:
        return f"{self.year:04d}-{self.number:02d}"


EXACT_PLACES = Decimal(1).scaleb(-30)


@dataclass(frozen=True, slots=True)
class ChargeLine:
    """The cost of one quantity. Without a component it has no price."""

    quantity: Quantity
    component: PriceComponent | None

    @property
    def dimension_text(self) -> str:
        return self.quantity.dimension.value.replace("_", " ")

    @property
    def amount(self) -> Decimal:
        """The posted amount: rounded half-even to 12 places."""
        return self.component.amount_of(self.quantity.amount) if self.component else Decimal(0)

    @property
    def exact_amount(self) -> Decimal:
        if self.component is None:
            return Decimal(0)
        product = EXACT.multiply(self.quantity.amount, self.component.unit_price)
        return EXACT.divide(product, self.component.per).quantize(EXACT_PLACES, context=EXACT)

    @property
    def band(self) -> str:
        return (
            ""
            if self.component is None or self.component.band == EVERY_SIZE
            else str(self.component.band)
        )


@dataclass(frozen=True, slots=True)
class Charge:
    """A cost or its correction. No lines: the price is unknown, or the hold was posted."""

    entry: Entry
    price: PriceVersion | None
    lines: tuple[ChargeLine, ...]
    corrected_create_time: datetime | None = None

    @property
    def recomputed_amount(self) -> Money | None:
        """The amount by quantities and prices; None when it is not made of them."""
        if not self.lines or self.price is None:
            return None
        total = sum((line.amount for line in self.lines), Decimal(0))
        return Money(total, self.price.currency_code)


def charge_of(
    entry: Entry, history: PriceHistory | None, corrected_create_time: datetime | None = None
) -> Charge:
    price = history.version(entry.price_version_id) if history else None
    return Charge(entry, price, _lines(entry, price), corrected_create_time)


def is_priced_by_usage(entry: Entry) -> bool:
    """Returns whether the amount is quantities times prices; else it is a hold, or a difference."""
    measured = entry.usage is not None and entry.usage.source is not UsageSource.ESTIMATED
    is_cost = entry.kind in (EntryKind.CAPTURE, EntryKind.RECORD)
    return measured and is_cost and not entry.postings.provisional


def _lines(entry: Entry, price: PriceVersion | None) -> tuple[ChargeLine, ...]:
    if price is None or entry.usage is None or not is_priced_by_usage(entry):
        return ()
    quantities = entry.usage.quantities
    components = {
        line.quantity.dimension: line.component
        for line in price.lines(quantities, entry.occur_time)
    }
    return tuple(ChargeLine(each, components.get(each.dimension)) for each in quantities)
