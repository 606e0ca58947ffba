"""What a call used, in disjoint dimensions, and how long calls took."""

from metering.histogram import LatencyHistogram
from metering.usage import Dimension, InvalidUsage, Quantity, Usage, UsageSource

__all__ = ["Dimension", "InvalidUsage", "LatencyHistogram", "Quantity", "Usage", "UsageSource"]
