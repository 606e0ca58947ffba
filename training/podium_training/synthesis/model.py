import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar

import httpx
import tenacity

from podium_kit.json_schemas.validators import validator_of
from podium_kit.money import Money
from podium_training.synthesis.journal import Journal

T = TypeVar("T")
REPLIES_MAX = 3
REPLY_TOKENS_MAX = 2048
TIMEOUT_S = 300.0
ATTEMPTS = 5
MILLION = Decimal(1_000_000)


class ModelUnusable(Exception):
    """The model's server rejects or does not answer; the message says why."""


class NoGoodReply(Exception):
    """A model's replies to one question were all unusable; the message names the last fault."""


@dataclass(frozen=True)
class Prices:
    """Prices of a million tokens; the ledger does not know models that are called directly."""

    input: Money
    output: Money


@dataclass
class ChatModel:
    """One model; replies it gave before come from the journal."""

    url: str
    """Up to and including /v1."""
    name: str
    client: httpx.AsyncClient
    journal: Journal
    seed: int
    gate: asyncio.Semaphore
    """Bounds the requests in flight at once."""
    prices: Prices | None = None
    tokens: Counter[str] = field(default_factory=Counter)
    """Tokens of all replies, those of earlier runs included."""
    unreported: int = 0
    """Replies whose server did not say what they used."""

    async def ask(
        self,
        step: str,
        prompt: str,
        schema: dict[str, Any],
        read: Callable[[dict[str, Any]], T],
    ) -> T:
        """Asks for a reply of the schema until `read` accepts it, and reports faults to the model.

        `read` raises ValueError for a reply that makes no sense.
        Raises NoGoodReply, ModelUnusable.
        """
        messages = [{"role": "user", "content": prompt}]
        fault = ""
        for attempt in range(REPLIES_MAX):
            text = await self._reply(f"{step}/{attempt}", messages, schema)
            try:
                return read(_checked(text, schema))
            except ValueError as error:
                fault = str(error)
            again = f"This cannot be used: {fault}\nReply again, with that fixed."
            messages = [
                *messages[:1],
                {"role": "assistant", "content": text},
                {"role": "user", "content": again},
            ]
        raise NoGoodReply(f"{step}: {fault}")

    def cost(self) -> Money | None:
        """The cost of all tokens; None without prices or reported tokens."""
        if self.prices is None or self.unreported:
            return None
        spent = [
            price * self.tokens[kind] * (1 / MILLION)
            for kind, price in (("prompt", self.prices.input), ("completion", self.prices.output))
        ]
        return (spent[0] + spent[1]).quantized()

    async def _reply(
        self, step: str, messages: list[dict[str, str]], schema: dict[str, Any]
    ) -> str:
        request = {
            "model": self.name,
            "messages": messages,
            "max_tokens": REPLY_TOKENS_MAX,
            "seed": _seed(self.seed, step),
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "reply", "schema": schema, "strict": True},
            },
        }
        reply = self.journal.find(request)
        if reply is None:
            async with self.gate:
                reply = await self._post(request)
            self.journal.add(request, reply)
        self.tokens.update(reply["tokens"])
        self.unreported += not reply["tokens"]
        return str(reply["text"])

    async def _post(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            response: httpx.Response = await RETRYING(self._response, request)
            response.raise_for_status()
            body = response.json()
            usage = body.get("usage") or {}
            tokens = {kind: int(usage[f"{kind}_tokens"]) for kind in KINDS if usage}
            return {"text": body["choices"][0]["message"]["content"] or "", "tokens": tokens}
        except httpx.HTTPStatusError as error:
            reply = error.response
            body = " ".join(reply.text.split())[:200]
            raise ModelUnusable(f"{self.url} answers {reply.status_code}: {body}") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ModelUnusable(f"{self.url} does not answer: {type(error).__name__}") from error
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ModelUnusable(f"{self.url} does not speak the chat completions API") from error

    async def _response(self, request: dict[str, Any]) -> httpx.Response:
        response = await self.client.post(
            f"{self.url}/chat/completions", json=request, timeout=TIMEOUT_S
        )
        if response.status_code in BUSY:
            response.raise_for_status()
        return response


KINDS = ("prompt", "completion")
BUSY = {429, 500, 502, 503, 504}


def _passes(error: BaseException) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in BUSY
    return isinstance(error, httpx.TransportError)


RETRYING = tenacity.AsyncRetrying(
    retry=tenacity.retry_if_exception(_passes),
    stop=tenacity.stop_after_attempt(ATTEMPTS),
    wait=tenacity.wait_exponential_jitter(multiplier=0.1, max=5, jitter=1),
    reraise=True,
)


def _checked(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    try:
        value = json.loads(text)
        # Half a character, which JSON can escape, is in no text: UnicodeEncodeError.
        json.dumps(value, ensure_ascii=False).encode()
        fault = next(validator_of(schema).iter_errors(value), None)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if fault:
        raise ValueError(f"{fault.json_path}: {fault.message[:300]}")
    return dict(value)


def _seed(seed: int, step: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{step}".encode()).digest()[:4])
