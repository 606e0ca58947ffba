import asyncio
import logging
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from podium_kit.models.openai_embeddings import Vector


class StaticEmbeddings:
    """Mean of the tokens' vectors, by WordLlama, whose weights of 16 MB come with its package.

    No model runs: a text takes microseconds. https://github.com/dleemiller/WordLlama
    """

    async def of(self, texts: Sequence[str]) -> "list[Vector]":
        """A vector of 256 numbers, of length 1, for each text, in their order."""
        return list(await asyncio.to_thread(self._embed, list(texts))) if texts else []

    def _embed(self, texts: list[str]) -> "NDArray[np.float32]":
        import numpy as np

        vectors: NDArray[np.float32] = self._model.embed(texts).astype(np.float32)
        # A text without a known token has no direction and is like nothing.
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, lengths, out=vectors, where=lengths > 0)
        return vectors

    @cached_property
    def _model(self) -> Any:
        root = logging.getLogger()
        handlers, level = list(root.handlers), root.level
        # Importing it gives every logger of the process a handler, at INFO.
        import wordllama  # type: ignore[import-untyped]

        root.handlers[:] = handlers
        root.setLevel(level)
        # It looks for its tokenizer in a folder of another name than its package has.
        folder = Path(wordllama.__file__).parent
        return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
