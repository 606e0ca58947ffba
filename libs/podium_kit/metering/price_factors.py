"""A price schedule as factors of the prices, by SKU.

The paper trains with another price schedule per example. A factor scales every component of a
price alike, so a call's cost under the schedule is its cost times the factor, whatever it used."""

import re
from collections.abc import Mapping
from decimal import Decimal

from podium_kit.money import InvalidMoney, Money
from podium_kit.rpc.errors import InvalidArgument

# What a tenant brings along and prices by itself; the same name is another thing to another tenant.
OWN = "own/"


def is_own(sku: str) -> bool:
    return sku.startswith(OWN)


FACTORS_MAX = 1_000
FACTOR_MAX = Decimal(1_000)
_FACTOR = re.compile(r"[0-9]{1,10}(\.[0-9]{1,20})?")


class InvalidPriceFactors(InvalidArgument):
    """A price schedule makes no sense."""


class PriceFactors:
    """Factors by SKU; a SKU without one keeps its price."""

    def __init__(self, factors: Mapping[str, Decimal]) -> None:
        self._factors = factors

    @classmethod
    def read(cls, written: Mapping[str, str]) -> "PriceFactors":
        if len(written) > FACTORS_MAX:
            raise InvalidPriceFactors(f"{len(written)} price factors; give at most {FACTORS_MAX}")
        return cls({sku: _factor(sku, text) for sku, text in written.items()})

    def __bool__(self) -> bool:
        return bool(self._factors)

    def of(self, sku: str) -> Decimal:
        return self._factors.get(sku, Decimal(1))

    def cost(self, cost: Money | None, sku: str) -> Money | None:
        """Returns the cost of a call under the factors; None if it is unknown or exceeds any
        amount.
        """
        try:
            return None if cost is None else (cost * self.of(sku)).quantized()
        except InvalidMoney:
            return None


def _factor(sku: str, text: str) -> Decimal:
    if not _FACTOR.fullmatch(text):
        raise InvalidPriceFactors(f"the price factor of {sku} is {text[:40]!r}; write it like 0.25")
    factor = Decimal(text)
    if not 1 / FACTOR_MAX <= factor <= FACTOR_MAX:
        raise InvalidPriceFactors(
            f"the price factor of {sku} is {text}; give {1 / FACTOR_MAX} to {FACTOR_MAX}"
        )
    return factor
