from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from podium_kit.rpc.errors import Unavailable

if TYPE_CHECKING:
    from podium_kit.models.openai_embeddings import Vector

TEXTS_PER_REQUEST = 64


class EmbeddingsUnavailable(Unavailable):
    def __init__(self, reason: str) -> None:
        super().__init__(f"the embeddings endpoint {reason}; try again")


class Embeddings(Protocol):
    async def of(self, texts: Sequence[str]) -> "list[Vector]":
        """A vector of length 1 for each text, in their order. Raises EmbeddingsUnavailable."""
