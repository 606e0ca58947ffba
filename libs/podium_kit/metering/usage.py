from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from podium_kit.rpc.errors import InvalidArgument


class Dimension(StrEnum):
    INPUT_FRESH = "input_fresh"
    CACHE_READ = "cache_read"
    CACHE_WRITE_SHORT = "cache_write_short"
    CACHE_WRITE_LONG = "cache_write_long"
    OUTPUT_TEXT = "output_text"
    REASONING = "reasoning"
    CALL = "call"
    SECOND = "second"
    GPU_SECOND = "gpu_second"
    SEARCH = "search"
    DOCUMENT = "document"
    IMAGE = "image"
    AUDIO_INPUT = "audio_input"
    AUDIO_OUTPUT = "audio_output"
    PROVIDER_COST = "provider_cost"


PROMPT_TOKENS = frozenset(
    {
        Dimension.INPUT_FRESH,
        Dimension.CACHE_READ,
        Dimension.CACHE_WRITE_SHORT,
        Dimension.CACHE_WRITE_LONG,
        Dimension.AUDIO_INPUT,
    }
)
COMPLETION_TOKENS = frozenset({Dimension.OUTPUT_TEXT, Dimension.REASONING, Dimension.AUDIO_OUTPUT})


class UsageSource(StrEnum):
    MEASURED = "measured"
    PROVIDER = "provider"
    ESTIMATED = "estimated"


class InvalidUsage(InvalidArgument):
    """A quantity that cannot be priced."""


@dataclass(frozen=True)
class Quantity:
    """A counted amount of one dimension; never negative."""

    dimension: Dimension
    amount: Decimal

    def __post_init__(self) -> None:
        if not self.amount.is_finite() or self.amount < 0:
            raise InvalidUsage(
                f"{self.dimension.value} is {self.amount:.20}; it must not be negative"
            )


@dataclass(frozen=True)
class Usage:
    """The usage of one call. A dimension appears at most once; the cost that a provider reports, 0
    as well, is a quantity beside those that it is the cost of.

    `unusable_reason` says why figures of the provider cannot be priced; empty: they can.
    `service_class` is the provider's class of service; empty: the standard one.
    """

    quantities: tuple[Quantity, ...]
    source: UsageSource
    provider_request_id: str = ""
    unusable_reason: str = ""
    service_class: str = ""

    def __post_init__(self) -> None:
        dimensions = [quantity.dimension for quantity in self.quantities]
        if len(set(dimensions)) != len(dimensions):
            raise InvalidUsage("a dimension appears twice in one usage")

    def get(self, dimension: Dimension) -> Decimal:
        """Amount of a dimension; zero when it was not used."""
        amounts = (entry.amount for entry in self.quantities if entry.dimension is dimension)
        return next(amounts, Decimal(0))

    @classmethod
    def of(cls, source: UsageSource, **amounts: Decimal | int | str) -> "Usage":
        """Usage by dimension name, for example `Usage.of(MEASURED, call=1)`."""
        quantities = (Quantity(Dimension(name), Decimal(value)) for name, value in amounts.items())
        return cls(tuple(entry for entry in quantities if entry.amount), source)

    @property
    def has_provider_cost(self) -> bool:
        return any(entry.dimension is Dimension.PROVIDER_COST for entry in self.quantities)

    @classmethod
    def total(cls, usages: "list[Usage]") -> tuple[Quantity, ...]:
        """Sums by dimension; of reported costs only where every usage has one.

        The cost of some of them, charged in place of the tokens of all, would lose the others.
        """
        sums: defaultdict[Dimension, Decimal] = defaultdict(Decimal)
        for usage in usages:
            for entry in usage.quantities:
                sums[entry.dimension] += entry.amount
        if not all(usage.has_provider_cost for usage in usages if usage.quantities):
            sums.pop(Dimension.PROVIDER_COST, None)
        return tuple(Quantity(name, sums[name]) for name in Dimension if name in sums)
