"""An OpenAI-compatible embeddings endpoint."""

from collections.abc import Sequence

import httpx
import numpy as np
from pydantic import SecretStr

from tool_registry.embeddings import EmbeddingsUnavailable, Vector

TIMEOUT_S = 20.0


class OpenAiEmbedder:
    """Asks `POST {base_url}/embeddings`."""

    def __init__(self, client: httpx.AsyncClient, model: str) -> None:
        self._client = client
        self._model = model

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One vector of length 1 per text, in order. Raises EmbeddingsUnavailable."""
        body = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        try:
            reply = await self._client.post("embeddings", json=body)
            reply.raise_for_status()
            data = sorted(reply.json()["data"], key=lambda each: each["index"])
            vectors = [np.asarray(each["embedding"], dtype=np.float32) for each in data]
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            raise EmbeddingsUnavailable(
                f"the embeddings endpoint did not answer as it should ({type(error).__name__})"
            ) from error
        if len(vectors) != len(texts):
            raise EmbeddingsUnavailable("the embeddings endpoint left texts out")
        return [vector / max(float(np.linalg.norm(vector)), 1e-12) for vector in vectors]


def open_embeddings_client(base_url: str, api_key: SecretStr | None) -> httpx.AsyncClient:
    """A client of an endpoint; `base_url` up to and including "/v1"."""
    headers = {"authorization": f"Bearer {api_key.get_secret_value()}"} if api_key else {}
    return httpx.AsyncClient(
        base_url=base_url.rstrip("/") + "/", headers=headers, timeout=TIMEOUT_S
    )
