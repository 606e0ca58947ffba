from podium_kit.metering.histogram import LatencyHistogram
from podium_kit.metering.price_factors import OWN, InvalidPriceFactors, PriceFactors, is_own
from podium_kit.metering.usage import Dimension, InvalidUsage, Quantity, Usage, UsageSource

__all__ = [
    "OWN",
    "Dimension",
    "InvalidPriceFactors",
    "InvalidUsage",
    "LatencyHistogram",
    "PriceFactors",
    "Quantity",
    "Usage",
    "UsageSource",
    "is_own",
]
