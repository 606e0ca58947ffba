from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError

from podium_kit.metering import Usage, UsageSource
from podium_kit.metering.usage_reports import estimated_usage, openai_usage
from podium_kit.models.embeddings import TEXTS_PER_REQUEST, EmbeddingsUnavailable

TIMEOUT_S = 30.0
# So many vectors of 8192 numbers, written out in full, are no larger.
REPLY_BYTES_MAX = 16 * 1024 * 1024

# Nothing was sent.
NOT_CONNECTED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
BROKEN_OFF = "the endpoint broke off; what it counted is not known"

Vector = NDArray[np.float32]
Meter = Callable[[Usage], None]


class _Item(BaseModel):
    index: int
    embedding: list[float] = Field(min_length=1)


class _Reply(BaseModel):
    data: list[_Item]
    # A report that is none is no reason to lose vectors that were paid for.
    usage: Any = None


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

    async def of(self, texts: Sequence[str], meter: Meter | None = None) -> list[Vector]:
        """A vector of length 1 for each text, in their order. Raises EmbeddingsUnavailable.

        `meter` gets the usage of each request, also of a failed one.
        """
        return [vector for part in _parts(texts) for vector in await self._request(part, meter)]

    async def close(self) -> None:
        await self._client.aclose()

    async def _request(self, texts: Sequence[str], meter: Meter | None) -> list[Vector]:
        body = {"model": self.model, "input": list(texts), "encoding_format": "float"}
        usage: Usage | None = Usage((), UsageSource.ESTIMATED, unusable_reason=BROKEN_OFF)
        try:
            async with self._client.stream("POST", "/embeddings", json=body) as reply:
                reply.raise_for_status()
                content = await _content(reply)
            vectors, usage = read_embeddings(content, texts)
        except httpx.HTTPStatusError as error:
            usage = None
            status = error.response.status_code
            raise EmbeddingsUnavailable(f"answered with status {status}") from error
        except httpx.RequestError as error:
            usage = None if isinstance(error, NOT_CONNECTED) else usage
            raise EmbeddingsUnavailable("cannot be reached or breaks off") from error
        finally:
            if meter is not None and usage is not None:
                meter(usage)
        return vectors


def read_embeddings(reply: bytes, texts: Sequence[str]) -> tuple[list[Vector], Usage]:
    try:
        found = _Reply.model_validate_json(reply)
    except ValidationError as error:
        raise EmbeddingsUnavailable("answered with something else than vectors") from error
    if sorted(item.index for item in found.data) != list(range(len(texts))):
        raise EmbeddingsUnavailable("answered with too few or too many vectors")
    vectors = [_unit(item.embedding) for item in sorted(found.data, key=lambda item: item.index)]
    report = found.usage if isinstance(found.usage, dict) else {}
    return vectors, openai_usage(report) or estimated_usage("".join(texts), "")


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
