"""Ranking tools by meaning: vectors of their texts, kept while the text stays the same."""

import logging
from collections.abc import Sequence

import numpy as np
from cachetools import LRUCache

from podium_kit.embeddings import EmbeddingsUnavailable, OpenAiEmbeddings, Vector
from tool_registry.models import ToolVersion

log = logging.getLogger(__name__)

VECTORS_KEPT = 50_000
TEXTS_PER_CALL = 128
# A tool less like the query than this says nothing about it.
SIMILARITY_MIN = 0.2
CHARACTERS_MAX = 2000


class Embeddings:
    """Vectors by text; a version of a tool never changes, so its vector does not either."""

    def __init__(self, endpoint: OpenAiEmbeddings) -> None:
        self._endpoint = endpoint
        self._vectors: LRUCache[str, Vector] = LRUCache(VECTORS_KEPT)

    async def rank(self, tools: Sequence[ToolVersion], query: str) -> list[str] | None:
        """Names of the tools closest in meaning, best first; None when the model fails."""
        texts = [f"{tool.spec.name}: {tool.spec.description}"[:CHARACTERS_MAX] for tool in tools]
        try:
            vectors = await self._of(texts)
            [wanted] = await self._endpoint.of([query])
        except EmbeddingsUnavailable as error:
            log.warning("searching by words only: %s", error.message)
            return None
        if not vectors:
            return []
        similarities = np.stack(vectors) @ wanted
        order = np.argsort(-similarities, kind="stable")
        return [tools[at].spec.name for at in order if similarities[at] >= SIMILARITY_MIN]

    async def _of(self, texts: Sequence[str]) -> list[Vector]:
        missing = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        for start in range(0, len(missing), TEXTS_PER_CALL):
            part = missing[start : start + TEXTS_PER_CALL]
            self._vectors.update(zip(part, await self._endpoint.of(part), strict=True))
        return [self._vectors[text] for text in texts]
