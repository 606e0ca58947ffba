"""Costs of requests that the adapters make on their own, charged to the tenant they are made for.

What a request uses is pending before it is sent and until the ledger has it, so that neither a
ledger that is away nor a process that dies loses a cost.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from opentelemetry.metrics import CallbackOptions, Observation

from podium_kit import telemetry
from podium_kit.metering import Quantity, Usage, UsageSource
from podium_kit.rpc.errors import (
    Aborted,
    DeadlineExceeded,
    DomainError,
    InternalError,
    NotFound,
    ResourceExhausted,
    Unavailable,
)
from tool_adapters.costs.models import AdapterCost
from tool_adapters.costs.store import PostgresPendingCosts

log = logging.getLogger(__name__)

PENDING_PER_ROUND = 500
# Errors that pass by themselves; a fault of the ledger may be one cost's.
PASSING = (Unavailable, DeadlineExceeded, ResourceExhausted, Aborted)
REASON_MAX = 400
# No request takes so long: its process has died.
ABANDONED_AFTER = timedelta(hours=1)
INTERRUPTED = "the adapters were interrupted; what was used is not known"
UNKNOWN = Usage((), UsageSource.ESTIMATED, unusable_reason=INTERRUPTED)


class Costs(Protocol):
    async def hold(self, cost: AdapterCost, worst_case: Sequence[Quantity]) -> None: ...

    async def settle(self, tenant: str, costs: Sequence[AdapterCost]) -> None: ...


class PendingCosts:
    """Several replicas may send: a key is posted once."""

    def __init__(self, pending: PostgresPendingCosts, costs: Costs) -> None:
        self._pending = pending
        self._costs = costs
        self._oldest_s: float | None = None
        telemetry.get_meter(__name__).create_observable_gauge(
            "podium.corpora.owed_costs.age",
            [self._reported_age],
            unit="s",
            description="of the oldest cost of vectors that the ledger does not have",
        )

    async def send(self) -> None:
        """Sends each tenant's costs separately. Raises the last of the errors that pass by
        themselves.
        """
        self._oldest_s = await self._pending.oldest_s(ABANDONED_AFTER)
        by_tenant: defaultdict[str, list[AdapterCost]] = defaultdict(list)
        for cost in await self._pending.pending(PENDING_PER_ROUND, ABANDONED_AFTER):
            by_tenant[cost.tenant].append(replace(cost, usage=cost.usage or UNKNOWN))
        failed: DomainError | None = None
        for tenant, costs in by_tenant.items():
            try:
                await self._send(tenant, costs)
            except DomainError as error:
                failed = error
        if failed is not None:
            raise failed

    async def _send(self, tenant: str, costs: list[AdapterCost]) -> None:
        """Sends all at once; when the ledger rejects that, one by one."""
        try:
            await self._costs.settle(tenant, costs)
        except DomainError as error:
            if _passes(error):
                raise
            if len(costs) > 1:
                for cost in costs:
                    await self._send(tenant, [cost])
                return
            [cost] = costs
            if cost.held and isinstance(error, NotFound):
                # Nothing was held, so nothing was bought.
                await self._pending.forget([cost.key])
                return
            log.error("the ledger rejects the cost %s: %s", cost.key, error.message)
            await self._pending.rejected(cost.key, error.message[:REASON_MAX])
        else:
            await self._pending.forget([cost.key for cost in costs])

    def _reported_age(self, _: CallbackOptions) -> Iterable[Observation]:
        return [] if self._oldest_s is None else [Observation(self._oldest_s)]


def _passes(error: DomainError) -> bool:
    """A ledger that is away has rejected nothing."""
    return isinstance(error, PASSING) and not isinstance(error, InternalError)
