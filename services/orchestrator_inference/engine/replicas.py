"""Single engines behind the base URL, addressed one by one: each loads and answers for itself."""

import asyncio
import math
import socket
from collections.abc import Sequence
from typing import Any

import aiohttp
from yarl import URL

from orchestrator_inference.engine.client import EngineClient, EngineReply
from orchestrator_inference.engine.errors import rejection
from orchestrator_inference.engine.models import cards_of
from orchestrator_inference.errors import EngineProtocolError, EngineUnreachable
from podium_kit.policy_versions import CanaryPrompt

# An engine that hangs must not hold up the others' versions; listing and one token are quick.
LISTING_TIMEOUT_S = 30.0
CANARY_TIMEOUT_S = 60.0
# vLLM's own limit (MAX_LOGPROB_TOKEN_IDS).
TOKEN_IDS_MAX = 128
# Nothing cut off, whatever the model's own defaults: they come with its files.
_WHOLE_DISTRIBUTION = {
    "max_tokens": 1,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "logprobs": 1,
    "return_tokens_as_token_ids": True,
}


class EngineReplica:
    def __init__(self, client: EngineClient, base_url: str, timeout_s: float) -> None:
        """`timeout_s` is what loading may take; a canary has at most CANARY_TIMEOUT_S of it."""
        self.url = base_url.rstrip("/")
        self._client = client
        self._timeout_s = timeout_s

    async def served(self) -> frozenset[str]:
        reply = await self._send("GET", "models", timeout_s=LISTING_TIMEOUT_S)
        return frozenset(str(card["id"]) for card in cards_of(reply, self.url))

    async def load(self, name: str, folder: str) -> None:
        """Loads a LoRA adapter under a name it has never had."""
        await self._send("POST", "load_lora_adapter", {"lora_name": name, "lora_path": folder})

    async def unload(self, name: str) -> None:
        await self._send("POST", "unload_lora_adapter", {"lora_name": name})

    async def logprobs(self, name: str, prompts: Sequence[CanaryPrompt]) -> list[list[float]]:
        """Log-probabilities of the next tokens, in nats, as this replica computes them."""
        parts = await asyncio.gather(*(self._scored(name, part) for part in _requests(prompts)))
        return [row for part in parts for row in part]

    async def _scored(self, name: str, prompts: Sequence[CanaryPrompt]) -> list[list[float]]:
        """Scores prompts as next tokens: `prompt_logprobs` end an engine with LoRA
        (vllm-project/vllm#16668).
        """
        body = _WHOLE_DISTRIBUTION | {
            "model": name,
            "prompt": [list(prompt.prompt_ids) for prompt in prompts],
            "logprob_token_ids": _targets(prompts),
        }
        reply = await self._send("POST", "completions", body, timeout_s=CANARY_TIMEOUT_S)
        try:
            answer = reply.json()
            if answer["model"] != name:
                raise EngineProtocolError(self.url, f"{answer['model']} answered for {name}")
            choices = sorted(answer["choices"], key=lambda choice: int(choice["index"]))
            if len(choices) != len(prompts):
                raise EngineProtocolError(self.url, "not one choice per prompt")
            return [
                [_logprob_of(token, choice) for token in prompt.next_ids]
                for prompt, choice in zip(prompts, choices, strict=True)
            ]
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise EngineProtocolError(self.url, "log-probabilities are missing") from error

    async def _send(
        self, method: str, path: str, body: Any = None, *, timeout_s: float = math.inf
    ) -> EngineReply:
        try:
            async with asyncio.timeout(min(timeout_s, self._timeout_s)):
                reply = await self._client.send(method, f"{self.url}/{path}", body)
        except (TimeoutError, aiohttp.ClientError) as error:
            raise EngineUnreachable(self.url, error) from error
        if not reply.is_success:
            name = str((body or {}).get("lora_name") or "")
            raise rejection(self.url, name, reply, None)
        return reply


def _requests(prompts: Sequence[CanaryPrompt]) -> list[list[CanaryPrompt]]:
    parts: list[list[CanaryPrompt]] = [[]]
    for prompt in prompts:
        if parts[-1] and len(_targets([*parts[-1], prompt])) > TOKEN_IDS_MAX:
            parts.append([])
        parts[-1].append(prompt)
    return parts


def _targets(prompts: Sequence[CanaryPrompt]) -> list[int]:
    return sorted({token for prompt in prompts for token in prompt.next_ids})


def _logprob_of(token: int, choice: Any) -> float:
    return float(choice["logprobs"]["top_logprobs"][0][f"token_id:{token}"])


async def replica_urls(base_url: str) -> list[str]:
    """The base URL once per address of its host: a headless Service has one per pod.

    Behind TLS the host's name is needed, so it stays one. Raises EngineUnreachable.
    """
    url = URL(base_url)
    if url.scheme == "https":
        return [base_url]
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise EngineUnreachable(url.host or base_url, error) from error
    return sorted({str(url.with_host(str(entry[4][0]))) for entry in found})
