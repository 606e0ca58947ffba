"""Vectors of corpora, charged to the tenant that indexes or searches.

What a request uses is owed before it is sent and until the ledger has it, so that neither a ledger
that is away nor a process that dies loses a cost.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol

from uuid_utils import uuid7

from podium_kit.embeddings import OpenAiEmbeddings, Vector
from podium_kit.metering import Usage, UsageSource
from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.identity import current_identity

OWED_PER_ROUND = 500
# No request takes so long: its process has died.
ABANDONED_AFTER = timedelta(hours=1)
INTERRUPTED = "the adapters were interrupted; what was used is not known"
UNKNOWN = Usage((), UsageSource.ESTIMATED, unusable_reason=INTERRUPTED)


@dataclass(frozen=True)
class EmbeddingCost:
    """What the vectors of one request about a corpus used; None while nobody knows."""

    key: str
    tenant: str
    subject: str
    corpus: str
    sku: str
    usage: Usage | None = None


class OwedCosts(Protocol):
    """Costs that the ledger does not have yet; see store_costs."""

    async def begin(self, cost: EmbeddingCost) -> None: ...
    async def end(self, key: str, usage: Usage) -> None: ...
    async def forget(self, keys: Sequence[str]) -> None: ...
    async def owed(self, limit: int, abandoned_after: timedelta) -> list[EmbeddingCost]: ...


class Costs(Protocol):
    """The ledger."""

    async def record(self, tenant: str, costs: Sequence[EmbeddingCost]) -> None: ...


@dataclass(frozen=True)
class ChargedEmbeddings:
    """An embedding model whose every use is owed to the ledger."""

    embeddings: OpenAiEmbeddings
    owed: OwedCosts

    @property
    def model(self) -> str:
        return self.embeddings.model

    async def of(self, texts: Sequence[str], tenant: str, corpus: str) -> list[Vector]:
        """A vector of length 1 for each text, in their order. Raises EmbeddingsUnavailable."""
        if not texts:
            return []
        cost = EmbeddingCost(
            key=f"embeddings/{uuid7()}",
            tenant=tenant,
            subject=current_identity().subject,
            corpus=corpus,
            sku=f"embeddings/{self.model}",
        )
        await self.owed.begin(cost)
        used: list[Usage] = []
        try:
            return await self.embeddings.of(texts, used.append)
        finally:
            # Also where the caller has given up.
            await asyncio.shield(self._end(cost.key, used))

    async def _end(self, key: str, used: list[Usage]) -> None:
        if used:
            await self.owed.end(key, _total(used))
        else:
            await self.owed.forget([key])


@dataclass(frozen=True)
class EmbeddingCosts:
    """Sends what is owed to the ledger. Several replicas may: a key is posted once."""

    owed: OwedCosts
    costs: Costs

    async def send(self) -> None:
        """Sends what is owed, each tenant's by itself. Raises the last DomainError."""
        by_tenant: defaultdict[str, list[EmbeddingCost]] = defaultdict(list)
        for cost in await self.owed.owed(OWED_PER_ROUND, ABANDONED_AFTER):
            by_tenant[cost.tenant].append(replace(cost, usage=cost.usage or UNKNOWN))
        failed: DomainError | None = None
        for tenant, costs in by_tenant.items():
            try:
                await self.costs.record(tenant, costs)
            except DomainError as error:
                failed = error
                continue
            await self.owed.forget([cost.key for cost in costs])
        if failed is not None:
            raise failed


def _total(used: list[Usage]) -> Usage:
    """As uncertain as the most uncertain of them."""
    estimated = any(usage.source is UsageSource.ESTIMATED for usage in used)
    source = UsageSource.ESTIMATED if estimated else UsageSource.PROVIDER
    reason = next((usage.unusable_reason for usage in used if usage.unusable_reason), "")
    return Usage(() if reason else Usage.total(used), source, unusable_reason=reason)
