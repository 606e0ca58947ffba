"""What a call used, in disjoint dimensions."""

from metering.usage import Dimension, InvalidUsage, Quantity, Usage, UsageSource

__all__ = ["Dimension", "InvalidUsage", "Quantity", "Usage", "UsageSource"]
