# Written by `make sdk` from podium_client/_async; do not edit.
"""Requests with repetitions, and streams that are taken up where they broke."""

import json
from collections.abc import Iterator, Callable, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import time
import httpx
from pydantic import BaseModel

from podium_client._sync.pages import Pages
from podium_client.errors import ApiError, ConnectionFailed, PodiumError
from podium_client.retries import is_retried, retry_after_s
from podium_client.settings import Settings
from podium_client.values import Model
from podium_client.version import VERSION
from podium_client.wire import (
    ANSWER_PART,
    EventDecoder,
    LineDecoder,
    ServerSentEvent,
    error_in_stream,
    error_of,
    query_of,
)

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
# The platform pings a silent stream every 15 s.
STREAM_SILENCE_S = 60.0
Body = Model | Mapping[str, Any] | None


class Transport:
    """One pool of connections with one API key."""

    def __init__(self, settings: Settings, http: httpx.Client | None) -> None:
        self._settings = settings
        self._http = http or httpx.Client(
            timeout=settings.timeout_s, trust_env=settings.trust_env
        )
        self._headers = {
            "authorization": f"Bearer {settings.api_key}",
            "user-agent": f"podium-client-python/{VERSION}",
        }

    def close(self) -> None:
        self._http.close()

    def call(
        self,
        method: str,
        path: str,
        reply: type[M],
        *,
        query: Mapping[str, Any] | None = None,
        body: Body = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = True,
    ) -> M:
        """The reply. One that is not repeatable is sent again only if it cannot have arrived.

        Raises ApiError, ConnectionFailed.
        """
        attempt = 0
        while True:
            try:
                response = self._http.request(
                    method,
                    self._settings.base_url + path,
                    params=query_of(query or {}),
                    json=body.to_json() if isinstance(body, Model) else body,
                    headers={**self._headers, **(headers or {})},
                )
            except httpx.TransportError as error:
                unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                wait_s = self._settings.retries.wait_s(attempt) if repeatable or unsent else None
                if wait_s is None:
                    raise self._unreachable(error) from error
            else:
                if response.is_success:
                    return reply.model_validate_json(response.content)
                failed = error_of(response.status_code, response.content, response.headers)
                wait_s = self._wait_s(attempt, failed, response.headers, repeatable)
                if wait_s is None:
                    raise failed
            time.sleep(wait_s)
            attempt += 1

    def pages(
        self,
        path: str,
        reply: type[M],
        items: Callable[[M], tuple[list[T], str]],
        query: Mapping[str, Any],
    ) -> Pages[T]:
        """The items of a list; `items` gives those of a page, and the token of the next one."""

        def fetch(page_token: str) -> tuple[list[T], str]:
            query_of_page = {**query, "page_token": page_token}
            return items(self.call("GET", path, reply, query=query_of_page))

        return Pages(fetch)

    def events(
        self, path: str, after: int, query: Mapping[str, Any]
    ) -> Iterator[ServerSentEvent]:
        """Yields events, from the one after `after` on; a broken stream is resumed.

        Ends when its consumer stops. Raises ApiError, ConnectionFailed.
        """
        attempt = 0
        while True:
            lost: Exception = ConnectionFailed("the stream ended before the episode did")
            headers = {"last-event-id": str(after), "accept": "text/event-stream"}
            try:
                with self._opened(path, query, headers) as response:
                    decoder = EventDecoder()
                    for chunk in response.iter_bytes():
                        for event in decoder.feed(chunk):
                            if event.name == "error":
                                raise error_in_stream(json.loads(event.data))
                            # Parts of an answer are not stored, so none is resumed from.
                            if event.name != ANSWER_PART:
                                after = int(json.loads(event.data)["sequence"])
                            attempt = 0
                            yield event
            except httpx.TransportError as error:
                lost = self._unreachable(error)
            except ApiError as error:
                if not is_retried(error.status, error.kind, {}):
                    raise
                lost = error
            if (wait_s := self._settings.retries.wait_s(attempt)) is None:
                raise lost
            time.sleep(wait_s)
            attempt += 1

    def lines(self, path: str, reply: type[M], query: Mapping[str, Any]) -> Iterator[M]:
        """Replies of a stream of JSON lines. Raises ApiError, ConnectionFailed."""
        try:
            with self._opened(path, query, {}) as response:
                decoder = LineDecoder()
                for chunk in response.iter_bytes():
                    for line in decoder.feed(chunk):
                        values = json.loads(line)
                        if "error" in values:
                            raise error_in_stream(values)
                        yield reply.model_validate(values)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    @contextmanager
    def _opened(
        self, path: str, query: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Iterator[httpx.Response]:
        with self._http.stream(
            "GET",
            self._settings.base_url + path,
            params=query_of(query),
            headers={**self._headers, **headers},
            timeout=httpx.Timeout(self._settings.timeout_s, read=STREAM_SILENCE_S),
        ) as response:
            if not response.is_success:
                response.read()
                raise error_of(response.status_code, response.content, response.headers)
            yield response

    def _wait_s(
        self, attempt: int, failed: ApiError, headers: Mapping[str, str], repeatable: bool
    ) -> float | None:
        # 429 is answered before anything is done.
        safe = repeatable or failed.status == 429
        if not safe or not is_retried(failed.status, failed.kind, headers):
            return None
        return self._settings.retries.wait_s(attempt, retry_after_s(headers))

    def _unreachable(self, error: Exception) -> ConnectionFailed:
        kind = type(error).__name__
        return ConnectionFailed(f"no answer from {self._settings.base_url} ({kind}: {error})")


def required(given: T | None) -> T:
    """Returns a part that the API always sends. Raises PodiumError."""
    if given is None:
        raise PodiumError("the platform's answer lacks a part that it always has")
    return given
