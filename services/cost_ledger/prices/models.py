"""Prices, and the cost of quantities under one price version.

amount = sum over dimensions of round_half_even(quantity * unit_price / per, 12 places)

The dimensions are all that the price lists, or the cost that the provider reported alone.

Each dimension is rounded once, so an amount can be recomputed for ever from the stored
quantities, the time of the call and the price version.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cached_property

from cost_ledger.prices.components import EXACT, PriceComponent, prompt_tokens
from podium_kit.metering import Dimension, Quantity
from podium_kit.money import Money

# Tokens that a price does not list cost what they are a kind of. A price of 0 for them
# would hide what the provider bills.
CHARGED_AS = {
    Dimension.CACHE_READ: Dimension.INPUT_FRESH,
    Dimension.CACHE_WRITE_SHORT: Dimension.INPUT_FRESH,
    Dimension.CACHE_WRITE_LONG: Dimension.INPUT_FRESH,
    Dimension.AUDIO_INPUT: Dimension.INPUT_FRESH,
    Dimension.REASONING: Dimension.OUTPUT_TEXT,
    Dimension.AUDIO_OUTPUT: Dimension.OUTPUT_TEXT,
}

ONE_CALL = Quantity(Dimension.CALL, Decimal(1))

# Tenant and SKU.
HistoryKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PricedQuantity:
    quantity: Quantity
    component: PriceComponent
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Period:
    """The time in which a call may be made: from `start` up to `end`."""

    start: datetime
    end: datetime


@dataclass(frozen=True)
class PriceVersion:
    """The price of a SKU from `start_time` (None: since ever) until `end_time` (None: for ever).

    An empty tenant means the list price of every tenant, an empty service class the standard one,
    an empty region every region without a price of its own.
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
    service_class: str = ""
    region: str = ""

    def holds_at(self, at: datetime) -> bool:
        started = self.start_time is None or self.start_time <= at
        return started and (self.end_time is None or at < self.end_time)

    def with_call(self, quantities: tuple[Quantity, ...]) -> tuple[Quantity, ...]:
        """Counts the call where the price lists calls: models report tokens and no call."""
        counted = any(entry.dimension is Dimension.CALL for entry in quantities)
        if counted or not quantities or Dimension.CALL not in self._listed:
            return quantities
        return (*quantities, ONE_CALL)

    def cost(self, quantities: tuple[Quantity, ...], at: datetime) -> Money:
        """Raises InvalidMoney when the sum is beyond what the ledger can store."""
        return self._total(line.amount for line in self.lines(quantities, at))

    def lines(self, quantities: tuple[Quantity, ...], at: datetime) -> tuple[PricedQuantity, ...]:
        """Quantities that cost nothing have no line."""
        size = prompt_tokens(quantities)
        charged = self._charged(quantities)
        parts = ((entry, self._component(entry.dimension, size, at)) for entry in charged)
        return tuple(
            PricedQuantity(entry, component, component.amount_of(entry.amount))
            for entry, component in parts
            if component
        )

    def worst_cost(self, quantities: tuple[Quantity, ...], period: Period) -> Money:
        """The most a call can cost that uses at most so much, whenever it is made in the period.

        Raises InvalidMoney when the sum is beyond what the ledger can store.
        """
        size = prompt_tokens(quantities)
        most_expensive = (
            (entry, self._most_expensive(entry.dimension, size, period))
            for entry in self.with_call(quantities)
        )
        return self._total(part.amount_of(entry.amount) for entry, part in most_expensive if part)

    def fitting_output_tokens(
        self, worst_case: tuple[Quantity, ...], remaining: Money, period: Period
    ) -> int | None:
        """Most output tokens that cost at most `remaining` with the rest of the worst case.

        None when not even one fits, or when the output is not what costs too much.
        """
        output = self._most_expensive(Dimension.OUTPUT_TEXT, prompt_tokens(worst_case), period)
        asked = [entry for entry in worst_case if entry.dimension is Dimension.OUTPUT_TEXT]
        rest = tuple(entry for entry in worst_case if entry.dimension is not Dimension.OUTPUT_TEXT)
        left = remaining - self.worst_cost(rest, period)
        if output is None or not output.unit_price or not asked or left.amount < 0:
            return None
        fitting = min(output.largest_quantity(left.amount), asked[0].amount)
        return int(fitting) or None

    def _charged(self, quantities: tuple[Quantity, ...]) -> tuple[Quantity, ...]:
        """The cost that the provider reported, where the price lists it; never that and the tokens
        that it is the cost of.
        """
        reported = tuple(one for one in quantities if one.dimension is Dimension.PROVIDER_COST)
        return reported if reported and Dimension.PROVIDER_COST in self._listed else quantities

    def _total(self, amounts: Iterable[Decimal]) -> Money:
        total = Decimal(0)
        for amount in amounts:
            total = EXACT.add(total, amount)
        return Money(total, self.currency_code)

    def _component(
        self, dimension: Dimension, size: Decimal, at: datetime
    ) -> PriceComponent | None:
        candidates = self._listed.get(dimension, ())
        if len(candidates) == 1:
            return candidates[0]  # a component on its own has neither band nor hours
        fitting = [each for each in candidates if each.band.holds(size)]
        in_hours = (each for each in fitting if each.hours and each.hours.hold_at(at))
        at_all_times = (each for each in fitting if not each.hours)
        return next(in_hours, None) or next(at_all_times, None)

    def _most_expensive(
        self, dimension: Dimension, size: Decimal, period: Period
    ) -> PriceComponent | None:
        candidates = self._listed.get(dimension, ())
        # Which output tokens will be reasoning is unknown before the call.
        if dimension is Dimension.OUTPUT_TEXT and Dimension.REASONING in self._listed:
            candidates = (*candidates, *self._listed[Dimension.REASONING])
        # The prompt may turn out smaller than the worst case, and be in a more expensive band.
        possible = (
            each
            for each in candidates
            if each.band.from_tokens <= size
            and (not each.hours or each.hours.hold_within(period.start, period.end))
        )
        return max(possible, key=lambda each: each.rate, default=None)

    @cached_property
    def _listed(self) -> dict[Dimension, tuple[PriceComponent, ...]]:
        """Returns the components of a dimension: its own, else those of its kind."""
        own = {
            dimension: tuple(each for each in self.components if each.dimension is dimension)
            for dimension in Dimension
        }
        kinds = {dimension: own[kind] for dimension, kind in CHARGED_AS.items()}
        return {name: found for name in Dimension if (found := own[name] or kinds.get(name, ()))}


@dataclass(frozen=True, slots=True)
class PriceHistory:
    """Every version of one SKU that one tenant can be charged by.

    `retired` ones were corrected: they price no new call, but holds still name them.
    """

    versions: tuple[PriceVersion, ...]
    retired: tuple[PriceVersion, ...] = ()

    def effective(
        self, at: datetime, service_class: str = "", region: str = ""
    ) -> PriceVersion | None:
        """The tenant's own version first, then the region's; None when the price is unknown."""
        holding = [
            version
            for version in self.versions
            if version.holds_at(at)
            and version.service_class == service_class
            and version.region in ("", region)
        ]
        return max(holding, key=lambda each: (bool(each.tenant), bool(each.region)), default=None)

    def version(self, version_id: str) -> PriceVersion | None:
        every = (*self.versions, *self.retired)
        return next((entry for entry in every if entry.id == version_id), None)
