"""Requests per second of a tenant: one token bucket in PostgreSQL, drawn on in small batches.

A replica draws a batch of tokens and spends them from memory, so most requests touch no
database. All replicas draw from one bucket, so together they never admit more than
burst + rate * time. Undercount: a batch lapses after LEASE_S, so each replica can waste up to
a batch (at most a twentieth of a second's rate, at most a sixteenth of the burst).
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from gateway.errors import TooManyRequests
from gateway.limits.models import TenantLimits

LEASE_S = 1.0
BATCH_S = 0.05


@dataclass(frozen=True)
class DrawnTokens:
    """Tokens drawn now, and what is left in the bucket."""

    granted: int
    left: float


@dataclass(frozen=True)
class RateLimitStatus:
    limit: int
    remaining: int
    # Seconds until the bucket is full again.
    reset_s: float


class BucketStore(Protocol):
    async def draw(self, tenant: str, limits: TenantLimits, wanted: int) -> DrawnTokens: ...


@dataclass
class _Lease:
    # Tokens drawn under other limits are not spent.
    limits: TenantLimits | None = None
    tokens: int = 0
    lapses_at: float = 0.0
    left: float = 0.0
    empty_until: float = 0.0
    drawing: asyncio.Lock = field(default_factory=asyncio.Lock)


class RateLimiter:
    def __init__(self, store: BucketStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._leases: defaultdict[str, _Lease] = defaultdict(_Lease)

    async def admit(self, tenant: str, limits: TenantLimits) -> RateLimitStatus:
        lease = self._leases[tenant]
        # One draw at a time: one that waited may find the lease refilled.
        async with lease.drawing:
            now = self._clock()
            if lease.tokens < 1 or lease.lapses_at < now or lease.limits != limits:
                await self._draw(tenant, limits, lease, now)
            lease.tokens -= 1
        return rate_limit_status(limits, lease.left + lease.tokens)

    async def _draw(self, tenant: str, limits: TenantLimits, lease: _Lease, now: float) -> None:
        lease.tokens = 0
        if now < lease.empty_until and lease.limits == limits:
            raise _rejection(limits, lease.empty_until - now)
        lease.limits = limits
        grant = await self._store.draw(tenant, limits, batch(limits))
        lease.left, lease.lapses_at = grant.left, now + LEASE_S
        if grant.granted < 1:
            wait_s = (1 - grant.left) / limits.requests_per_s
            lease.empty_until = now + wait_s
            raise _rejection(limits, wait_s)
        lease.tokens = grant.granted


def batch(limits: TenantLimits) -> int:
    return max(1, min(int(limits.requests_per_s * BATCH_S), limits.burst // 16))


def rate_limit_status(limits: TenantLimits, tokens: float) -> RateLimitStatus:
    missing = max(0.0, limits.burst - tokens)
    return RateLimitStatus(limits.burst, max(0, int(tokens)), missing / limits.requests_per_s)


def _rejection(limits: TenantLimits, wait_s: float) -> TooManyRequests:
    return TooManyRequests(
        f"your tenant may send {limits.requests_per_s:g} requests per second with bursts of "
        f"{limits.burst}; wait {wait_s:.2g} s, or ask the platform's admin for more",
        retry_after_s=max(wait_s, 0.001),
    )
