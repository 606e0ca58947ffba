"""Coarse figures: measurements move all the time, and a prompt should not."""

from bisect import bisect_left
from decimal import Decimal

STEPS = tuple(Decimal(digit).scaleb(power) for power in range(-9, 4) for digit in (1, 2, 5))
LATENCY_MIN_S = Decimal("0.01")


def latency_step(seconds: float) -> Decimal:
    """The nearest step of a latency in seconds, from a hundredth on."""
    return nearest_step(max(Decimal(seconds), LATENCY_MIN_S))


def nearest_step(amount: Decimal) -> Decimal:
    """The nearest of 1, 2, 5, 10, 20 ... by ratio; what is above all of them, as a whole."""
    place = bisect_left(STEPS, amount)
    if place == len(STEPS):
        return round(amount, 0)
    below, above = STEPS[max(place - 1, 0)], STEPS[place]
    return below if amount * amount < below * above else above
