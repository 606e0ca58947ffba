from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal

from podium_kit.metering import Quantity, Usage, UsageSource
from tool_adapters.adapter import Answer

PERCENT = Decimal(100)


@dataclass(frozen=True)
class CacheRule:
    """The settings of a policy's cache. A hit is charged `charged_percent` of what the first answer
    used."""

    policy: str
    ttl: timedelta
    quota_bytes: int
    sampled: bool
    charged_percent: int

    def hit(self, stored: Answer) -> Answer:
        """The answer as it is given again."""
        share = self.charged_percent / PERCENT
        quantities = (
            Quantity(each.dimension, each.amount * share) for each in stored.usage.quantities
        )
        usage = Usage(tuple(quantities) if share else (), UsageSource.MEASURED)
        return replace(
            stored, usage=usage, latency_s=0.0, attempts=0, unsent=False, guardrails=(), cached=True
        )
