"""BM25 over the passages of one corpus, by bm25s (Lu 2024, arXiv 2407.03618)."""

from collections.abc import Sequence

import bm25s  # type: ignore[import-untyped]

from tool_adapters.corpus.models import Hit, Passage


class PassageIndex:
    """An immutable index; built anew for every version of a corpus."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._passages = passages
        self._bm25 = bm25s.BM25()
        if passages:
            # The title belongs to what is searched: passages seldom repeat their subject.
            texts = [f"{passage.title}\n{passage.content}" for passage in passages]
            self._bm25.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)

    def search(self, query: str, top_k: int) -> list[Hit]:
        """The best passages that share a word with the query, best first."""
        words = bm25s.tokenize([query], return_ids=False, show_progress=False)
        if not self._passages or not words[0]:
            return []
        k = min(top_k, len(self._passages))
        numbers, scores = self._bm25.retrieve(words, k=k, show_progress=False)
        pairs = zip(numbers[0], scores[0], strict=True)
        return [Hit(self._passages[number], float(score)) for number, score in pairs if score > 0]
