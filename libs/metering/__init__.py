"""What a call used, in disjoint dimensions, and how long calls took."""

from metering.histogram import LatencyHistogram
from metering.price_factors import InvalidPriceFactors, PriceFactors
from metering.usage import Dimension, InvalidUsage, Quantity, Usage, UsageSource

__all__ = [
    "Dimension",
    "InvalidPriceFactors",
    "InvalidUsage",
    "LatencyHistogram",
    "PriceFactors",
    "Quantity",
    "Usage",
    "UsageSource",
]
