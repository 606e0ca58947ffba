"""Money is a decimal with at most 12 fractional digits and a currency.

Token prices are far below a cent, so cents and micro-dollars round to nothing;
floats cannot be reconciled at all. Every rounding is half-even, once.
"""

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal

from podium_kit.rpc.errors import InvalidArgument

AMOUNT_PLACES = 12
_QUANTUM = Decimal(1).scaleb(-AMOUNT_PLACES)
_LIMIT = Decimal(10) ** 16
_WIDE = Context(prec=60, rounding=ROUND_HALF_EVEN)
# Bounded before it is a Decimal: a few characters could stand for a number of a gigabyte.
_AMOUNT = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?")
_CURRENCY = re.compile(r"[A-Z]{3}")


class InvalidMoney(InvalidArgument):
    """The amount or the currency cannot be understood exactly."""


@dataclass(frozen=True)
class Money:
    """An amount in one currency; sums and differences stay exact."""

    amount: Decimal
    currency_code: str

    def __post_init__(self) -> None:
        if not _CURRENCY.fullmatch(self.currency_code):
            raise InvalidMoney(
                f"currency {self.currency_code[:40]!r} is not an ISO 4217 code like USD"
            )
        if not self.amount.is_finite() or self.amount.copy_abs() >= _LIMIT:
            raise InvalidMoney(f"amount {self.amount:.20} is out of range")

    @classmethod
    def parse(cls, amount: str, currency_code: str) -> "Money":
        if not _AMOUNT.fullmatch(amount):
            raise InvalidMoney(f"amount {amount[:40]!r} is not a decimal like 0.0015")
        value = Decimal(amount)
        if -int(value.as_tuple().exponent) > AMOUNT_PLACES:
            raise InvalidMoney(f"amount {amount!r} has more than {AMOUNT_PLACES} decimals")
        if value.is_zero() and value.is_signed():
            raise InvalidMoney(f"amount {amount!r} is a negative zero; write 0")
        return cls(value, currency_code)

    @classmethod
    def zero(cls, currency_code: str) -> "Money":
        return cls(Decimal(0), currency_code)

    def quantized(self) -> "Money":
        """Rounded half-even to 12 decimals."""
        return Money(self.amount.quantize(_QUANTUM, context=_WIDE), self.currency_code)

    def __add__(self, other: "Money") -> "Money":
        return Money(_WIDE.add(self.amount, self._same(other)), self.currency_code)

    def __sub__(self, other: "Money") -> "Money":
        return Money(_WIDE.subtract(self.amount, self._same(other)), self.currency_code)

    def __mul__(self, factor: Decimal | int) -> "Money":
        return Money(_WIDE.multiply(self.amount, factor), self.currency_code)

    def __neg__(self) -> "Money":
        return self * -1

    def __lt__(self, other: "Money") -> bool:
        return self.amount < self._same(other)

    def __le__(self, other: "Money") -> bool:
        return self.amount <= self._same(other)

    def __gt__(self, other: "Money") -> bool:
        return self.amount > self._same(other)

    def __ge__(self, other: "Money") -> bool:
        return self.amount >= self._same(other)

    def __str__(self) -> str:
        return f"{self.amount_string()} {self.currency_code}"

    def amount_string(self) -> str:
        text = f"{self.amount or Decimal(0):f}"  # -0 is 0
        return text.rstrip("0").rstrip(".") if "." in text else text

    def _same(self, other: "Money") -> Decimal:
        if other.currency_code != self.currency_code:
            raise InvalidMoney(
                f"{other.currency_code} cannot be combined with {self.currency_code} without a rate"
            )
        return other.amount
