"""Components of a price: what one dimension costs, for which prompts and at which hours.

A band is chosen by the size of the whole prompt and prices every unit of the call, as
providers do for long contexts. In the hours of a component it replaces those
without hours. Components are checked to leave no prompt size without a price and to
give none two.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from functools import cached_property
from itertools import combinations, pairwise

from cost_ledger.errors import InvalidPrice
from podium_kit.metering import PROMPT_TOKENS, Dimension, Quantity

DAYS = 7
MINUTES_PER_DAY = 24 * 60
_TIME_OF_DAY = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])|24:00")
UNIT_PRICE_PLACES_MAX = 18
PER_PLACES_MAX = 12


@dataclass(frozen=True, slots=True)
class WeeklyHours:
    """Hours of each of the weekdays (0: Monday), from `start_minute` until before `end_minute`."""

    weekdays: frozenset[int]
    start_minute: int
    end_minute: int

    def __post_init__(self) -> None:
        if not self.weekdays or not self.weekdays <= set(range(DAYS)):
            raise InvalidPrice("hours name a weekday that does not exist")
        if not 0 <= self.start_minute < self.end_minute <= MINUTES_PER_DAY:
            raise InvalidPrice(
                f"hours from {time_text(self.start_minute)} until {time_text(self.end_minute)} "
                "are empty; split hours that pass midnight into two components"
            )

    def hold_at(self, at: datetime) -> bool:
        moment = at.astimezone(UTC)
        minute = moment.hour * 60 + moment.minute
        return moment.weekday() in self.weekdays and self.start_minute <= minute < self.end_minute

    def hold_within(self, start: datetime, end: datetime) -> bool:
        """Returns whether any instant from `start` up to `end` is within the hours."""
        first = start.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        days = min((end - first).days, DAYS)
        return any(self._hold_on(first + timedelta(day), start, end) for day in range(days + 1))

    def overlap(self, other: "WeeklyHours") -> bool:
        same_day = bool(self.weekdays & other.weekdays)
        return same_day and max(self.start_minute, other.start_minute) < min(
            self.end_minute, other.end_minute
        )

    def _hold_on(self, midnight: datetime, start: datetime, end: datetime) -> bool:
        opens = midnight + timedelta(minutes=self.start_minute)
        closes = midnight + timedelta(minutes=self.end_minute)
        return midnight.weekday() in self.weekdays and opens <= end and start < closes


def minute_of(text: str) -> int:
    if not _TIME_OF_DAY.fullmatch(text):
        raise InvalidPrice(f"{text[:20]!r} is no time of day; write it like 08:30")
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


def time_text(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"


UNIT_PRICE_MAX = Decimal(10) ** 12
PER_MAX = Decimal(10) ** 15
# Wide enough that a quotient is never mistaken for a tie: products have at most 60 digits.
EXACT = Context(prec=120, rounding=ROUND_HALF_EVEN)
QUANTUM = Decimal(1).scaleb(-12)
TOKEN = Decimal(1)


@dataclass(frozen=True, slots=True)
class TokenBand:
    """Prompts of at least `from_tokens` and of fewer than `until_tokens` (None: no end)."""

    from_tokens: int = 0
    until_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.from_tokens < 0 or (
            self.until_tokens is not None and self.until_tokens <= self.from_tokens
        ):
            raise InvalidPrice(f"the band {self} is empty; it must end above its start")

    def __str__(self) -> str:
        return f"{self.from_tokens}..{'' if self.until_tokens is None else self.until_tokens}"

    def holds(self, tokens: Decimal) -> bool:
        return self.from_tokens <= tokens and (
            self.until_tokens is None or tokens < self.until_tokens
        )

    def overlaps(self, other: "TokenBand") -> bool:
        return (other.until_tokens is None or self.from_tokens < other.until_tokens) and (
            self.until_tokens is None or other.from_tokens < self.until_tokens
        )


EVERY_SIZE = TokenBand()


@dataclass(frozen=True)
class PriceComponent:
    """The price of one dimension: `unit_price` for `per` units."""

    dimension: Dimension
    unit_price: Decimal
    per: Decimal
    band: TokenBand = EVERY_SIZE
    hours: WeeklyHours | None = None

    def __post_init__(self) -> None:
        name = self.dimension.value
        _check(f"unit_price of {name}", self.unit_price, UNIT_PRICE_PLACES_MAX, UNIT_PRICE_MAX)
        _check(f"per of {name}", self.per, PER_PLACES_MAX, PER_MAX)
        if self.per == 0:
            raise InvalidPrice(f"per of {name} is 0; leave it unset for a price per unit")

    @cached_property
    def rate(self) -> Decimal:
        return EXACT.divide(self.unit_price, self.per)

    def amount_of(self, quantity: Decimal) -> Decimal:
        """Rounded half-even to 12 places."""
        # The rate of a price per 1, 1000 or 1000000 is exact, and spares the division.
        if self._rate_is_exact:
            return EXACT.multiply(quantity, self.rate).quantize(QUANTUM, context=EXACT)
        exact = EXACT.divide(EXACT.multiply(quantity, self.unit_price), self.per)
        return exact.quantize(QUANTUM, context=EXACT)

    @cached_property
    def _rate_is_exact(self) -> bool:
        return self.per.normalize().as_tuple().digits == (1,)

    def largest_quantity(self, amount: Decimal) -> Decimal:
        """The largest whole quantity that costs at most `amount`. `unit_price` is above 0."""
        exact = EXACT.divide(EXACT.multiply(amount, self.per), self.unit_price)
        whole = exact.quantize(TOKEN, rounding=ROUND_FLOOR, context=EXACT)
        # Rounding down to the twelfth place may let one more unit fit.
        return whole + 1 if self.amount_of(whole + 1) <= amount else whole


def prompt_tokens(quantities: Iterable[Quantity]) -> Decimal:
    """Size of a call's prompt: all of it, cached or not."""
    return sum(
        (entry.amount for entry in quantities if entry.dimension in PROMPT_TOKENS), Decimal(0)
    )


def check_components(sku: str, components: tuple[PriceComponent, ...]) -> None:
    """Raises InvalidPrice unless every prompt at every time has one price per dimension."""
    if not components:
        raise InvalidPrice(f"{sku} has no component; what is free has unit_price 0")
    if all(entry.dimension is Dimension.PROVIDER_COST for entry in components):
        raise InvalidPrice(
            f"{sku} lists provider_cost alone; add prices of its tokens or calls, which bound what "
            "is held for a call and price those whose cost the provider does not report"
        )
    for dimension in {entry.dimension for entry in components}:
        mine = [entry for entry in components if entry.dimension is dimension]
        _check_bands(f"{dimension.value} of {sku}", [each for each in mine if not each.hours])
        _check_hours(f"{dimension.value} of {sku}", [each for each in mine if each.hours])


def _check_bands(name: str, components: list[PriceComponent]) -> None:
    bands = sorted((each.band for each in components), key=lambda band: band.from_tokens)
    if not bands:
        raise InvalidPrice(f"{name} has a price for some hours only; add one without hours")
    for one, other in pairwise(bands):
        if one.overlaps(other):
            raise InvalidPrice(f"{name} is priced twice: its bands {one} and {other} overlap")
        if one.until_tokens != other.from_tokens:
            raise InvalidPrice(f"{name} has no price between its bands {one} and {other}")
    if bands[0].from_tokens or bands[-1].until_tokens is not None:
        raise InvalidPrice(f"{name} has no price for every prompt; its bands must span 0 to no end")


def _check_hours(name: str, components: list[PriceComponent]) -> None:
    for one, other in combinations(components, 2):
        if not one.hours or not other.hours:
            raise AssertionError("only components with hours are compared")
        if one.band.overlaps(other.band) and one.hours.overlap(other.hours):
            raise InvalidPrice(f"{name} is priced twice in some hours")


def _check(name: str, value: Decimal, places: int, maximum: Decimal) -> None:
    exponent = value.as_tuple().exponent
    if not value.is_finite() or value < 0 or value >= maximum:
        raise InvalidPrice(f"{name} is {value:.40}; it must be at least 0 and below {maximum}")
    if isinstance(exponent, int) and -exponent > places:
        raise InvalidPrice(f"{name} has more than {places} decimals")
