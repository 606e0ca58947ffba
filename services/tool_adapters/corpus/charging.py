"""Vectors of corpora, charged to the tenant that indexes or searches."""

import asyncio
import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from uuid_utils import uuid7

from podium_kit.metering import Dimension, Quantity, Usage, UsageSource
from podium_kit.models.embeddings import TEXTS_PER_REQUEST
from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.identity import current_identity
from tool_adapters.corpus.store_bought import PostgresBoughtVectors, keep
from tool_adapters.costs.models import AdapterCost
from tool_adapters.costs.sending import Costs
from tool_adapters.costs.store import PostgresPendingCosts

if TYPE_CHECKING:
    from podium_kit.models.openai_embeddings import OpenAiEmbeddings, Vector

log = logging.getLogger(__name__)


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
        cost = AdapterCost(
            key=f"embeddings/{uuid7()}",
            tenant=tenant,
            subject=current_identity().subject,
            tool=f"corpus {corpus}",
            sku=f"embeddings/{self.model}",
        )
        await self.pending.begin(cost)
        used: list[Usage] = []
        bought: dict[bytes, bytes] = {}
        try:
            tokens = Decimal(sum(map(_tokens_max, texts)))
            await self.ledger.hold(cost, [Quantity(Dimension.INPUT_FRESH, tokens)])
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
        self, cost: AdapterCost, used: list[Usage], bought: Mapping[bytes, bytes]
    ) -> None:
        if used:
            keep_bought = partial(keep, tenant=cost.tenant, model=self.model, vectors=bought)
            await self.pending.end(cost.key, _total(used), keep_bought if bought else None)
        else:
            await self.pending.unused(cost.key)


def _tokens_max(text: str) -> int:
    """A generous estimate: English has about four bytes to a token."""
    return 8 + len(text.encode()) // 2


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _vector(stored: bytes) -> "Vector":
    import numpy as np

    return np.frombuffer(stored, dtype=np.float32)


def _total(used: list[Usage]) -> Usage:
    estimated = any(usage.source is UsageSource.ESTIMATED for usage in used)
    source = UsageSource.ESTIMATED if estimated else UsageSource.PROVIDER
    reason = next((usage.unusable_reason for usage in used if usage.unusable_reason), "")
    return Usage(() if reason else Usage.total(used), source, unusable_reason=reason)
