"""A chat completion that comes as events, put together to the body of one that comes whole."""

import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any

import aiohttp

from orchestrator_inference.engine.engine import TextListener
from orchestrator_inference.engine.reply import NotACompletion
from podium_kit.models.provider_errors import ProviderError
from podium_kit.server_sent_events import EventTooLarge, event_data

Json = dict[str, Any]

# The largest has the ids of the prompt's tokens.
EVENT_BYTES_MAX = 64 * 1024 * 1024
LAST_EVENT = "[DONE]"
# Parts of the body that an event has whole; the last one that has it is right.
WHOLE = ("id", "model", "usage", "prompt_token_ids")


class BrokenOff(Exception):
    """The engine reported an error in the middle of its reply."""

    def __init__(self, fault: ProviderError) -> None:
        super().__init__(fault.message)
        self.fault = fault


def is_stream(response: aiohttp.ClientResponse) -> bool:
    """Some servers answer with the whole, whatever was asked for."""
    return bool(response.headers.get("content-type", "").startswith("text/event-stream"))


async def read_stream(chunks: AsyncIterator[bytes], on_text: TextListener) -> Json:
    """Returns the body.

    Raises BrokenOff, ValueError, and aiohttp.ClientPayloadError for an early end.
    """
    reply = _Reply(on_text)
    try:
        async for data in event_data(chunks, EVENT_BYTES_MAX):
            if data == LAST_EVENT:
                break
            event = json.loads(data)
            if fault := ProviderError.read(HTTPStatus.OK, {}, event):
                raise BrokenOff(fault)
            reply.add(event)
        return reply.whole()
    except EventTooLarge as error:
        raise NotACompletion(f"an event has more than {EVENT_BYTES_MAX} bytes") from error
    except (AttributeError, TypeError) as error:
        raise NotACompletion("an event of the stream is no part of a chat completion") from error


class _Reply:
    def __init__(self, on_text: TextListener) -> None:
        self._on_text = on_text
        self._body: Json = {}
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._token_ids: list[Any] = []
        self._logprobs: list[Any] = []
        self._reason: Any = None

    def add(self, event: Json) -> None:
        """Raises AttributeError or TypeError for what is no event of a completion."""
        for name in WHOLE:
            if event.get(name) is not None:
                self._body[name] = event[name]
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or {}
            self._thoughts.append(delta.get("reasoning") or delta.get("reasoning_content") or "")
            self._token_ids += choice.get("token_ids") or ()
            self._logprobs += (choice.get("logprobs") or {}).get("content") or ()
            self._reason = choice.get("finish_reason") or self._reason
            if text := delta.get("content"):
                self._texts.append(text)
                self._on_text(text)

    def whole(self) -> Json:
        if self._reason is None:
            raise aiohttp.ClientPayloadError("the reply ended in the middle")
        choice = {
            "message": {"content": "".join(self._texts), "reasoning": "".join(self._thoughts)},
            "finish_reason": self._reason,
            "token_ids": self._token_ids,
            "logprobs": {"content": self._logprobs},
        }
        return {**self._body, "choices": [choice]}
