"""Single engines behind the base URL, addressed one by one: each loads and answers for itself."""

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

import httpx

from orchestrator_inference.engine_models import cards_of
from orchestrator_inference.engine_refusals import refusal
from orchestrator_inference.errors import EngineProtocolError, EngineUnreachable
from policy_versions import CanaryPrompt


class EngineReplica:
    """vLLM's administrative side. Every method raises the Engine... errors of `errors`."""

    def __init__(self, client: httpx.AsyncClient, base_url: str, timeout_s: float) -> None:
        self.url = base_url.rstrip("/")
        self._client = client
        self._timeout_s = timeout_s

    async def served(self) -> frozenset[str]:
        """Names of the models it lists."""
        response = await self._send("GET", "models")
        return frozenset(str(card["id"]) for card in cards_of(response, self.url))

    async def load(self, name: str, folder: str) -> None:
        """Loads a LoRA adapter under a name it has never had."""
        await self._send("POST", "load_lora_adapter", {"lora_name": name, "lora_path": folder})

    async def unload(self, name: str) -> None:
        """Forgets an adapter."""
        await self._send("POST", "unload_lora_adapter", {"lora_name": name})

    async def logprobs(self, name: str, prompts: Sequence[CanaryPrompt]) -> list[list[float]]:
        """Log-probabilities of the continuations, in nats, as this replica computes them."""
        # The continuation is given, not sampled: vLLM scores it as part of the prompt.
        ids = [[*prompt.prompt_ids, *prompt.continuation_ids] for prompt in prompts]
        body = {"model": name, "prompt": ids, "max_tokens": 1, "prompt_logprobs": 0}
        response = await self._send("POST", "completions", body | {"temperature": 1.0})
        try:
            answer = response.json()
            if answer["model"] != name:
                raise EngineProtocolError(self.url, f"{answer['model']} answered for {name}")
            choices = sorted(answer["choices"], key=lambda choice: int(choice["index"]))
            if len(choices) != len(prompts):
                raise EngineProtocolError(self.url, "not one choice per prompt")
            return [
                _continuation(choice["prompt_logprobs"], prompt)
                for choice, prompt in zip(choices, prompts, strict=True)
            ]
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise EngineProtocolError(self.url, "prompt_logprobs are missing") from error

    async def _send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await self._client.request(method, f"{self.url}/{path}", json=body)
        except (TimeoutError, httpx.TransportError) as error:
            raise EngineUnreachable(self.url) from error
        if not response.is_success:
            name = str((body or {}).get("lora_name") or "")
            raise refusal(self.url, name, response, None)
        return response


def _continuation(entries: Sequence[Any], prompt: CanaryPrompt) -> list[float]:
    """Log-probabilities of the given tokens; vLLM lists one entry per prompt token, by its id."""
    found = entries[len(prompt.prompt_ids) :]
    ids = prompt.continuation_ids
    return [float(entry[str(one)]["logprob"]) for one, entry in zip(ids, found, strict=True)]


async def replica_urls(base_url: str) -> list[str]:
    """The base URL once per address of its host: a headless Service has one per pod.

    Behind TLS the host's name is needed, so it stays one. Raises EngineUnreachable.
    """
    url = httpx.URL(base_url)
    if url.scheme == "https":
        return [base_url]
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise EngineUnreachable(url.host) from error
    return sorted({str(url.copy_with(host=entry[4][0])) for entry in found})
