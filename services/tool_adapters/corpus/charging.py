"""Vectors of corpora, charged to the tenant that indexes or searches.

What a request uses is pending before it is sent and until the ledger has it, so that neither a
ledger that is away nor a process that dies loses a cost.
"""

import asyncio
import hashlib
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from opentelemetry.metrics import CallbackOptions, Observation
from uuid_utils import uuid7

from podium_kit import telemetry
from podium_kit.metering import Usage, UsageSource
from podium_kit.models.embeddings import TEXTS_PER_REQUEST
from podium_kit.rpc.errors import (
    Aborted,
    DeadlineExceeded,
    DomainError,
    InternalError,
    NotFound,
    ResourceExhausted,
    Unavailable,
)
from podium_kit.rpc.identity import current_identity
from tool_adapters.corpus.models import EmbeddingCost
from tool_adapters.corpus.store_costs import PostgresBoughtVectors, PostgresPendingCosts

if TYPE_CHECKING:
    from podium_kit.models.openai_embeddings import OpenAiEmbeddings, Vector

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
    async def hold(self, cost: EmbeddingCost, tokens: int) -> None: ...

    async def settle(self, tenant: str, costs: Sequence[EmbeddingCost]) -> None: ...


@dataclass(frozen=True)
class ChargedEmbeddings:
    embeddings: "OpenAiEmbeddings"
    pending: PostgresPendingCosts
    kept: PostgresBoughtVectors
    ledger: Costs

    @property
    def model(self) -> str:
        return self.embeddings.model

    async def of_query(self, query: str, tenant: str, corpus: str) -> "Vector":
        bought = await self._bought([query], tenant, corpus, keep=False)
        return _vector(bought[_digest(query)])

    async def of_passages(self, texts: Sequence[str], tenant: str, corpus: str) -> "list[Vector]":
        """A vector of length 1 for each text, in their order.

        Raises EmbeddingsUnavailable, and BudgetExhausted before anything is spent.
        What was bought is kept until `stored`: a retry buys the rest alone.
        """
        known = await self.kept.kept(tenant, self.model, list(map(_digest, texts)))
        missing = [text for text in dict.fromkeys(texts) if _digest(text) not in known]
        if missing:
            known |= await self._bought(missing, tenant, corpus, keep=True)
        return [_vector(known[_digest(text)]) for text in texts]

    async def stored(self, texts: Sequence[str], tenant: str) -> None:
        try:
            await self.kept.drop(tenant, self.model, list(map(_digest, texts)))
        except DomainError as error:
            log.warning("bought vectors are dropped later: %s", error.message)

    async def _bought(
        self, texts: Sequence[str], tenant: str, corpus: str, *, keep: bool
    ) -> dict[bytes, bytes]:
        """Buys the vectors of texts, and returns them by the texts' digests."""
        cost = EmbeddingCost(
            key=f"embeddings/{uuid7()}",
            tenant=tenant,
            subject=current_identity().subject,
            corpus=corpus,
            sku=f"embeddings/{self.model}",
        )
        await self.pending.begin(cost)
        used: list[Usage] = []
        bought: dict[bytes, bytes] = {}
        try:
            await self.ledger.hold(cost, sum(map(_tokens_max, texts)))
            for start in range(0, len(texts), TEXTS_PER_REQUEST):
                part = texts[start : start + TEXTS_PER_REQUEST]
                vectors = await self.embeddings.of(part, used.append)
                pairs = zip(part, vectors, strict=True)
                bought.update((_digest(text), vector.tobytes()) for text, vector in pairs)
            return bought
        finally:
            # Also where the caller has given up.
            await asyncio.shield(self._end(cost, used, bought if keep else {}))

    async def _end(
        self, cost: EmbeddingCost, used: list[Usage], bought: Mapping[bytes, bytes]
    ) -> None:
        if used:
            await self.pending.end(cost, _total(used), self.model, bought)
        else:
            await self.pending.unused(cost.key)


class EmbeddingCosts:
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
        by_tenant: defaultdict[str, list[EmbeddingCost]] = defaultdict(list)
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

    async def _send(self, tenant: str, costs: list[EmbeddingCost]) -> None:
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


def _tokens_max(text: str) -> int:
    """A generous estimate: English has about four bytes to a token."""
    return 8 + len(text.encode()) // 2


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _vector(stored: bytes) -> "Vector":
    import numpy as np

    return np.frombuffer(stored, dtype=np.float32)


def _passes(error: DomainError) -> bool:
    """A ledger that is away has rejected nothing."""
    return isinstance(error, PASSING) and not isinstance(error, InternalError)


def _total(used: list[Usage]) -> Usage:
    estimated = any(usage.source is UsageSource.ESTIMATED for usage in used)
    source = UsageSource.ESTIMATED if estimated else UsageSource.PROVIDER
    reason = next((usage.unusable_reason for usage in used if usage.unusable_reason), "")
    return Usage(() if reason else Usage.total(used), source, unusable_reason=reason)
