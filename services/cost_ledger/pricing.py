"""What quantities cost under one price version.

amount = sum over quantities of round_half_even(quantity * unit_price / per, 12 places)

Each quantity is rounded once, so an amount can be recomputed for ever from the
stored quantities and the price version.
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

from cost_ledger.errors import InvalidPrice
from metering import Dimension, Quantity
from money import Money

UNIT_PRICE_PLACES_MAX = 18
PER_PLACES_MAX = 12
UNIT_PRICE_MAX = Decimal(10) ** 12
PER_MAX = Decimal(10) ** 15
# Wide enough that a quotient is never mistaken for a tie: products have at most 60 digits.
EXACT = Context(prec=120, rounding=ROUND_HALF_EVEN)
QUANTUM = Decimal(1).scaleb(-12)
TOKEN = Decimal(1)
# What a token is charged as when a price does not name its kind: never nothing.
CHARGED_AS = {
    Dimension.CACHE_READ: Dimension.INPUT_FRESH,
    Dimension.CACHE_WRITE_5M: Dimension.INPUT_FRESH,
    Dimension.CACHE_WRITE_1H: Dimension.INPUT_FRESH,
    Dimension.REASONING: Dimension.OUTPUT_TEXT,
}


@dataclass(frozen=True, slots=True)
class PriceComponent:
    """The price of one dimension: `unit_price` for `per` units."""

    dimension: Dimension
    unit_price: Decimal
    per: Decimal

    def __post_init__(self) -> None:
        name = self.dimension.value
        _check(f"unit_price of {name}", self.unit_price, UNIT_PRICE_PLACES_MAX, UNIT_PRICE_MAX)
        _check(f"per of {name}", self.per, PER_PLACES_MAX, PER_MAX)
        if self.per == 0:
            raise InvalidPrice(f"per of {name} is 0; leave it unset for a price per unit")

    def amount_of(self, quantity: Decimal) -> Decimal:
        """Cost of a quantity, rounded half-even to 12 places."""
        exact = EXACT.divide(EXACT.multiply(quantity, self.unit_price), self.per)
        return exact.quantize(QUANTUM, context=EXACT)

    def largest_quantity(self, amount: Decimal) -> Decimal:
        """The largest whole quantity that costs at most `amount`. `unit_price` is above 0."""
        exact = EXACT.divide(EXACT.multiply(amount, self.per), self.unit_price)
        whole = exact.quantize(TOKEN, rounding=ROUND_FLOOR, context=EXACT)
        # Rounding down to the twelfth place may let one more unit fit.
        return whole + 1 if self.amount_of(whole + 1) <= amount else whole


@dataclass(frozen=True, slots=True)
class PriceVersion:
    """What a SKU costs from `start_time` (None: since ever) until `end_time` (None: for ever).

    An empty tenant means the list price of every tenant.
    """

    id: str
    tenant: str
    sku: str
    currency_code: str
    components: tuple[PriceComponent, ...]
    start_time: datetime | None
    end_time: datetime | None
    source: str
    create_time: datetime

    def holds_at(self, at: datetime) -> bool:
        """Whether `at` is in the half-open validity."""
        started = self.start_time is None or self.start_time <= at
        return started and (self.end_time is None or at < self.end_time)

    def cost(self, quantities: tuple[Quantity, ...]) -> Money:
        """The amount; a dimension that is not priced costs nothing.

        Cached and reasoning tokens without a component of their own are charged as input
        and output. Raises InvalidMoney when the sum is beyond what the ledger can store.
        """
        total = Decimal(0)
        for quantity in quantities:
            if component := self._component(quantity.dimension):
                total = EXACT.add(total, component.amount_of(quantity.amount))
        return Money(total, self.currency_code)

    def _component(self, dimension: Dimension) -> PriceComponent | None:
        """What prices a dimension: its own component, else that of its kind of token."""
        priced = {component.dimension: component for component in self.components}
        return priced.get(dimension) or priced.get(CHARGED_AS.get(dimension, dimension))

    def fitting_output_tokens(
        self, worst_case: tuple[Quantity, ...], remaining: Money
    ) -> int | None:
        """Most output tokens that cost at most `remaining` with the rest of the worst case.

        None when not even one fits, or when the output is not what costs too much.
        """
        output = self._output_component()
        asked = [entry for entry in worst_case if entry.dimension is Dimension.OUTPUT_TEXT]
        rest = tuple(entry for entry in worst_case if entry.dimension is not Dimension.OUTPUT_TEXT)
        left = remaining - self.cost(rest)
        if output is None or not asked or left.amount < 0:
            return None
        fitting = min(output.largest_quantity(left.amount), asked[0].amount)
        return int(fitting) or None

    def _output_component(self) -> PriceComponent | None:
        priced = (entry for entry in self.components if entry.unit_price > 0)
        return next((e for e in priced if e.dimension is Dimension.OUTPUT_TEXT), None)


@dataclass(frozen=True, slots=True)
class PriceHistory:
    """Every version of one SKU that one tenant can be charged by."""

    versions: tuple[PriceVersion, ...]

    def effective(self, at: datetime) -> PriceVersion | None:
        """The version that holds, the tenant's own first; None: the price is unknown."""
        holding = [version for version in self.versions if version.holds_at(at)]
        own = (version for version in holding if version.tenant)
        return next(own, holding[0] if holding else None)

    def version(self, version_id: str) -> PriceVersion | None:
        """The version with the id."""
        return next((entry for entry in self.versions if entry.id == version_id), None)


def _check(name: str, value: Decimal, places: int, maximum: Decimal) -> None:
    exponent = value.as_tuple().exponent
    if not value.is_finite() or value < 0 or value >= maximum:
        raise InvalidPrice(f"{name} is {value:.40}; it must be at least 0 and below {maximum}")
    if isinstance(exponent, int) and -exponent > places:
        raise InvalidPrice(f"{name} has more than {places} decimals")
