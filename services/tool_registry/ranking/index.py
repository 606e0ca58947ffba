from collections.abc import Sequence

import bm25s  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

from podium_kit.models.openai_embeddings import Vector
from tool_registry.ranking.search import separated

# A tool less like the query than this, and without a word of it, says nothing about it.
SIMILARITY_MIN = 0.3
# What a point of BM25 is worth in cosine similarity. The words of a query that a tool matches come
# to 5 to 15 points. Chosen from 0 to 0.1 on generated tasks and on BFCL's questions.
BM25_WEIGHT = 0.02

Scores = NDArray[np.float64]
"""One for each tool."""


class ToolIndex:
    """BM25 by bm25s (Lu 2024, arXiv 2407.03618), and vectors of the texts where there are any."""

    def __init__(
        self, texts: Sequence[Sequence[str]], vectors: Sequence[Sequence[Vector]] | None
    ) -> None:
        self._count = len(texts)
        self._bm25 = bm25s.BM25()
        tokens = bm25s.tokenize([text for own in texts for text in own], show_progress=False)
        self._has_words = any(tokens.ids)
        if self._has_words:
            self._bm25.index(tokens, show_progress=False)
        self.has_vectors = vectors is not None
        self._first_of_each = np.cumsum([0, *(len(own) for own in texts[:-1])])
        if vectors:
            self._vectors = np.stack([vector for own in vectors for vector in own])

    def ranked(self, query: str, vector: Vector | None, learnt: Scores | None = None) -> list[int]:
        """Numbers of all tools, best first; `learnt` are similarities of other texts of theirs."""
        similarities = self._similarities(vector)
        if learnt is not None:
            similarities = np.maximum(similarities, learnt)
        scores = similarities + BM25_WEIGHT * self._word_scores(query)
        return [int(at) for at in np.argsort(-scores, kind="stable")]

    def fitting(self, query: str, vector: Vector | None) -> list[tuple[int, float]]:
        """Numbers and scores of the tools that have to do with the query, best first."""
        similarities, words = self._similarities(vector), self._word_scores(query)
        scores = similarities + BM25_WEIGHT * words
        fits = (words > 0) | (similarities >= SIMILARITY_MIN)
        order = np.argsort(-scores, kind="stable")
        return [(int(at), float(scores[at])) for at in order if fits[at]]

    def _similarities(self, vector: Vector | None) -> Scores:
        if vector is None or not self._count:
            return np.zeros(self._count)
        similarities = (self._vectors @ vector).astype(np.float64)
        return np.maximum.reduceat(similarities, self._first_of_each)

    def _word_scores(self, query: str) -> Scores:
        [words] = bm25s.tokenize([separated(query)], return_ids=False, show_progress=False)
        if not (self._has_words and words):
            return np.zeros(self._count)
        scores = self._bm25.get_scores(words).astype(np.float64)
        return np.maximum.reduceat(scores, self._first_of_each)
