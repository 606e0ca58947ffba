"""Latencies counted in logarithmic buckets: figures of several processes add up exactly.

Bucket i holds (1.02^(i-1), 1.02^i] seconds, so a quantile is within 1 % of the true one
whatever it is, and merging is addition (the idea of DDSketch, VLDB 2019). A mean of
quantiles, the alternative, is no quantile of anything.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

GROWTH = 1.02
# A microsecond: what is faster is as fast.
SHORTEST_S = 1e-6


@dataclass
class LatencyHistogram:
    counts: Counter[int] = field(default_factory=Counter)

    @classmethod
    def of(cls, latencies_s: Iterable[float]) -> "LatencyHistogram":
        return cls(Counter(bucket(latency_s) for latency_s in latencies_s))

    @property
    def total(self) -> int:
        return self.counts.total()

    def merge(self, other: "LatencyHistogram") -> None:
        self.counts.update(other.counts)

    def quantile_s(self, share: float) -> float:
        """Seconds within which a share of the calls ended; 0 when there were none."""
        rank, seen = share * (self.total - 1), 0
        for index in sorted(self.counts):
            seen += self.counts[index]
            if seen > rank:
                return middle_s(index)
        return 0.0


def bucket(latency_s: float) -> int:
    return math.ceil(math.log(max(latency_s, SHORTEST_S), GROWTH))


def middle_s(index: int) -> float:
    """The seconds that stand for a bucket: at most 1 % from any latency in it."""
    return 2 * GROWTH**index / (1 + GROWTH)
