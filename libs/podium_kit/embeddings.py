"""Vectors of meaning, from any endpoint that speaks OpenAI's embeddings API."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import httpx
import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError

from podium_kit.rpc.errors import Unavailable

TEXTS_PER_REQUEST = 64
TIMEOUT_S = 30.0
# So many vectors of 8192 numbers, written out in full, are no larger.
REPLY_BYTES_MAX = 16 * 1024 * 1024

Vector = NDArray[np.float32]


class EmbeddingsUnavailable(Unavailable):
    """The endpoint gives no vectors."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the embeddings endpoint {reason}; try again")


class Embeddings(Protocol):
    """Something that turns texts into vectors."""

    async def of(self, texts: Sequence[str]) -> list[Vector]:
        """A vector of length 1 for each text, in their order. Raises EmbeddingsUnavailable."""


class _Item(BaseModel):
    index: int
    embedding: list[float] = Field(min_length=1)


class _Reply(BaseModel):
    data: list[_Item]


class OpenAiEmbeddings:
    """POST <base_url>/embeddings (OpenAI API reference, "Create embeddings").

    `base_url` is the URL up to and including "/v1".
    """

    def __init__(self, base_url: str, model: str, api_key: str = "") -> None:
        self.model = model
        # What is not packed cannot unpack to a thousand times its size.
        headers = {"accept-encoding": "identity"}
        if api_key:
            headers["authorization"] = f"Bearer {api_key}"
        self._client = httpx.AsyncClient(
            base_url=base_url, headers=headers, timeout=TIMEOUT_S, trust_env=False
        )

    async def of(self, texts: Sequence[str]) -> list[Vector]:
        """A vector of length 1 for each text, in their order. Raises EmbeddingsUnavailable."""
        return [vector for part in _parts(texts) for vector in await self._request(part)]

    async def close(self) -> None:
        await self._client.aclose()

    async def _request(self, texts: Sequence[str]) -> list[Vector]:
        body = {"model": self.model, "input": list(texts), "encoding_format": "float"}
        try:
            async with self._client.stream("POST", "/embeddings", json=body) as reply:
                reply.raise_for_status()
                content = await _content(reply)
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            raise EmbeddingsUnavailable(f"answered with status {status}") from error
        except httpx.RequestError as error:
            raise EmbeddingsUnavailable("cannot be reached or breaks off") from error
        return read_vectors(content, len(texts))


def read_vectors(reply: bytes, count: int) -> list[Vector]:
    """A vector of length 1 for each text, in their order. Raises EmbeddingsUnavailable."""
    try:
        items = _Reply.model_validate_json(reply).data
    except ValidationError as error:
        raise EmbeddingsUnavailable("answered with something else than vectors") from error
    if sorted(item.index for item in items) != list(range(count)):
        raise EmbeddingsUnavailable("answered with too few or too many vectors")
    return [_unit(item.embedding) for item in sorted(items, key=lambda item: item.index)]


async def _content(reply: httpx.Response) -> bytes:
    content = bytearray()
    # Raw: what a server packs all the same is no JSON.
    async for chunk in reply.aiter_raw():
        content += chunk
        if len(content) > REPLY_BYTES_MAX:
            raise EmbeddingsUnavailable(f"answered with more than {REPLY_BYTES_MAX} bytes")
    return bytes(content)


def _unit(values: list[float]) -> Vector:
    vector: Vector = np.asarray(values, dtype=np.float32)
    length = float(np.linalg.norm(vector))
    if not np.isfinite(length) or not length:
        raise EmbeddingsUnavailable("answered with a vector without a direction")
    return np.divide(vector, np.float32(length))


def _parts(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(texts), TEXTS_PER_REQUEST):
        yield texts[start : start + TEXTS_PER_REQUEST]
