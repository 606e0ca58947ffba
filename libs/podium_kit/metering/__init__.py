from podium_kit.metering.histogram import LatencyHistogram
from podium_kit.metering.price_factors import OWN, InvalidPriceFactors, PriceFactors, is_own
from podium_kit.metering.usage import (
    COMPLETION_TOKENS,
    PROMPT_TOKENS,
    Dimension,
    InvalidUsage,
    Quantity,
    Usage,
    UsageSource,
)

__all__ = [
    "COMPLETION_TOKENS",
    "OWN",
    "PROMPT_TOKENS",
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
