from collections.abc import Sequence
from typing import Any

import bm25s  # type: ignore[import-untyped]
import Stemmer  # type: ignore[import-not-found]


def stemmed(texts: Sequence[str], *, ids: bool = False) -> Any:
    """Snowball, English, so that "border" finds "borders"; a list of words for each text, or their
    ids and the vocabulary."""
    return bm25s.tokenize(
        texts, stemmer=Stemmer.Stemmer("english"), return_ids=ids, show_progress=False
    )
