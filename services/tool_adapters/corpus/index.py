"""Finds the passages of one corpus: by words, by meaning where there are vectors, or by both.

Words: BM25 by bm25s (Lu 2024, arXiv 2407.03618). Meaning: every vector is compared, which is
exact, and at the size a corpus may have takes milliseconds. Both: reciprocal rank fusion
(Cormack et al., SIGIR 2009), because the scores of the two cannot be compared and ranks can.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from tool_adapters.corpus.index_builder import built, opened
from tool_adapters.corpus.models import Hit, Passage
from tool_adapters.corpus.words import stemmed

# Of the paper: how little the first ranks count more than the next.
FUSION_K = 60
CANDIDATES = 50
Ranking = list[tuple[int, float]]


class PassageIndex:
    """An immutable index; built anew for every version of a corpus.

    `words` is what index_builder made of the passages, if it was asked before.
    """

    def __init__(self, passages: Sequence[Passage], words: bytes | None = None) -> None:
        self._passages = passages
        if words is None:
            words = built([passage.searched for passage in passages])
        self._bm25 = opened(words)
        self._vectors = _matrix(passages)
        # What it takes of memory, more or less: a text and its words.
        self.size_bytes = 3 * len(words) + self._vectors.nbytes
        self.size_bytes += sum(2 * len(passage.content) + 500 for passage in passages)

    @property
    def dimensions(self) -> int:
        """0 where the corpus is searched by words alone."""
        return int(self._vectors.shape[1])

    def search(self, query: str, top_k: int, vector: bytes = b"") -> list[Hit]:
        """The best passages, best first: those that share a word with the query, and with a
        vector of the query also those that are near in meaning."""
        count = max(top_k, CANDIDATES) if vector else top_k
        ranking = self._by_words(query, count)
        if vector:
            ranking = _fused([ranking, self._by_meaning(vector, count)])
        return [Hit(self._passages[number], score) for number, score in ranking[:top_k]]

    def _by_words(self, query: str, count: int) -> Ranking:
        words = stemmed([query])
        if self._bm25 is None or not words[0]:
            return []
        k = min(count, len(self._passages))
        numbers, scores = self._bm25.retrieve(words, k=k, show_progress=False)
        pairs = zip(numbers[0], scores[0], strict=True)
        return [(int(number), float(score)) for number, score in pairs if score > 0]

    def _by_meaning(self, vector: bytes, count: int) -> Ranking:
        likeness = self._vectors @ np.frombuffer(vector, dtype="<f4")
        best = np.argsort(-likeness, kind="stable")[:count]
        return [(int(number), float(likeness[number])) for number in best]


def _matrix(passages: Sequence[Passage]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """A row for each passage; no columns unless all have vectors of one length."""
    lengths = {len(passage.vector) for passage in passages}
    if len(lengths) != 1 or lengths == {0}:
        return np.empty((len(passages), 0), dtype="<f4")
    joined = b"".join(passage.vector for passage in passages)
    return np.frombuffer(joined, dtype="<f4").reshape(len(passages), -1)


def _fused(rankings: Sequence[Ranking]) -> Ranking:
    scores: defaultdict[int, float] = defaultdict(float)
    for ranking in rankings:
        for rank, (number, _) in enumerate(ranking, start=1):
            scores[number] += 1 / (FUSION_K + rank)
    return sorted(scores.items(), key=lambda pair: -pair[1])
