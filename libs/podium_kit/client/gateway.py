"""The public API over HTTP: messages of the contract in and out, errors as UserErrors."""

import asyncio
import json
import os
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx
from google.protobuf import json_format
from google.protobuf.message import Message

from podium.episodes.v1 import episode_pb2, episode_service_pb2
from podium_kit.client.errors import UsageError, UserError
from podium_kit.client.rejections import Rejected, near_names
from podium_kit.wire import json_values

M = TypeVar("M", bound=Message)
TIMEOUT = httpx.Timeout(60.0, connect=5.0)
# The gateway pings a silent stream every 15 s.
STREAM_TIMEOUT = httpx.Timeout(60.0, connect=5.0)
# Of a stream that brings nothing new: long enough for a gateway to restart.
ATTEMPTS_MAX, ATTEMPT_PAUSE_S = 20, 1.0
LOOPBACK = {"127.0.0.1", "localhost", "::1"}
# What a header takes; a line break at the end of a file is none of it.
KEY = re.compile(r"[!-~]+")


class Unreachable(UserError):
    temporary = True

    def __init__(self, url: str, error: Exception) -> None:
        # A ValueError comes from reading the answer, as of a proxy's page.
        why = "the answer is not JSON" if isinstance(error, ValueError) else type(error).__name__
        super().__init__(
            f"no gateway answers at {url} ({why})",
            "see `podium status`, or check --url and PODIUM_URL",
        )


class InvalidUrl(UsageError):
    def __init__(self, url: str) -> None:
        super().__init__(
            f"{url!r} is no URL of a gateway", "write it like https://podium.example.com"
        )


class InvalidKey(UsageError):
    """The given text is not an API key; the error must not show it."""

    def __init__(self) -> None:
        super().__init__(
            "the API key is empty, or has a space, a line break or a letter that no key has",
            "copy it again, without what stands around it",
        )


class InvalidAuthority(UsageError):
    def __init__(self, authority: Path, error: OSError) -> None:
        super().__init__(
            f"{authority} holds no certificate of an authority: {error}",
            "name a PEM file, such as ca.crt of the Secret <release>-gateway-tls",
        )


class Gateway:
    """One connection pool with one API key; an asynchronous context manager. Requests raise
    Rejected and Unreachable.
    """

    def __init__(self, url: str, api_key: str, authority: Path | None = None) -> None:
        """`authority` is a PEM file of what signs the gateway's certificate; unset means as usual.

        Raises InvalidUrl, InvalidKey, InvalidAuthority.
        """
        self.url = url
        if not KEY.fullmatch(api_key):
            raise InvalidKey
        host, encrypted = _host(url), httpx.URL(url).scheme == "https"
        # To read the authorities takes longer than a request, and http has no use for them.
        without_authorities = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._client = httpx.AsyncClient(
            base_url=url,
            headers={"authorization": f"Bearer {api_key}"},
            timeout=TIMEOUT,
            # A proxy for the world is none for this machine.
            trust_env=host not in LOOPBACK,
            verify=verification(authority) if authority or encrypted else without_authorities,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def get(self, path: str, reply: type[M], **query: Any) -> M:
        return _parsed(await self.call("GET", path, query=query), reply)

    async def post(self, path: str, body: Message | Mapping[str, Any], reply: type[M]) -> M:
        return _parsed(await self.call("POST", path, body=body), reply)

    async def put(self, path: str, body: Message | Mapping[str, Any], reply: type[M]) -> M:
        return _parsed(await self.call("PUT", path, body=body), reply)

    async def patch(self, path: str, body: Message | Mapping[str, Any], reply: type[M]) -> M:
        return _parsed(await self.call("PATCH", path, body=body), reply)

    async def delete(self, path: str, reply: type[M], **query: Any) -> M:
        return _parsed(await self.call("DELETE", path, query=query), reply)

    async def all(self, path: str, reply: type[M], **query: Any) -> M:
        """Fetches all pages as one reply."""
        merged, token = reply(), ""
        while True:
            page: Any = await self.get(path, reply, **query, page_token=token)
            token = page.next_page_token
            page.ClearField("next_page_token")
            merged.MergeFrom(page)
            if not token:
                return merged

    async def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Message | Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        values = json_values(body) if isinstance(body, Message) else body
        try:
            reply = await self._client.request(
                method, path, params=_given(query or {}), json=values
            )
        except httpx.TransportError as error:
            raise Unreachable(self.url, error) from error
        if not reply.is_success:
            await self._reject(reply)
        try:
            result: dict[str, Any] = reply.json()
        except ValueError as error:
            raise Unreachable(self.url, error) from error
        return result

    async def stream(self, path: str, reply: type[M], **query: Any) -> AsyncIterator[M]:
        """Replies as they arrive, a line of JSON each; fewer than all when the stream is cut.

        Raises Rejected, Unreachable.
        """
        try:
            async with self._opened(path, params=_given(query)) as lines:
                async for line in lines:
                    if "error" in (values := json.loads(line)):
                        return
                    yield _parsed(values, reply)
        except (httpx.TransportError, json.JSONDecodeError) as error:
            raise Unreachable(self.url, error) from error

    async def events(
        self,
        episode_id: str,
        after_sequence: int = 0,
        show: Callable[[episode_service_pb2.EpisodeAnswerPart], None] | None = None,
    ) -> AsyncIterator[episode_pb2.EpisodeEvent]:
        """Yields an episode's events until it ends, and resumes a broken stream.

        So is one that a gateway which starts or stops cannot open. `show` gets the parts of the
        answer of an episode that streams it. Raises Rejected, Unreachable.
        """
        attempts = 0
        while True:
            lost: UserError
            try:
                async for news in self._stream(episode_id, after_sequence, show is not None):
                    if isinstance(news, episode_service_pb2.EpisodeAnswerPart):
                        if show is not None:
                            show(news)
                        continue
                    event, attempts = news, 0
                    after_sequence = event.sequence
                    yield event
                    if event.HasField("finished"):
                        return
            except httpx.TransportError as error:
                lost = Unreachable(self.url, error)
            except Rejected as error:
                if not error.temporary:
                    raise
                lost = error
            else:
                ended = httpx.RemoteProtocolError("the stream ended early")
                lost = Unreachable(self.url, ended)
            attempts += 1
            if attempts == ATTEMPTS_MAX:
                raise lost
            await asyncio.sleep(ATTEMPT_PAUSE_S)

    async def _stream(
        self, episode_id: str, after_sequence: int, with_parts: bool
    ) -> AsyncIterator[episode_pb2.EpisodeEvent | episode_service_pb2.EpisodeAnswerPart]:
        path = f"/v1/episodes/{segment(episode_id)}/events"
        headers = {"last-event-id": str(after_sequence)}
        query = _given({"answer_parts": "true" if with_parts else ""})
        async with self._opened(path, headers=headers, params=query) as lines:
            kind = ""
            async for line in lines:
                if line.startswith("event: "):
                    kind = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    text = line.removeprefix("data: ")
                    yield _answer_part(text) if kind == "answer_part" else _event(text)
                elif not line:
                    kind = ""

    @asynccontextmanager
    async def _opened(self, path: str, **request: Any) -> AsyncIterator[AsyncIterator[str]]:
        async with self._client.stream("GET", path, timeout=STREAM_TIMEOUT, **request) as reply:
            if not reply.is_success:
                await reply.aread()
                await self._reject(reply)
            yield reply.aiter_lines()

    async def _reject(self, reply: httpx.Response) -> None:
        rejected = Rejected.of(reply)
        raise rejected.with_fix(await near_names(partial(self.call, "GET"), rejected)) from None


def _host(url: str) -> str:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise InvalidUrl(url) from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidUrl(url)
    return parsed.host


def verification(authority: Path | None) -> ssl.SSLContext | bool:
    # httpx does not read the environment for addresses of this machine, such as a forwarded port's.
    named = authority or os.environ.get("SSL_CERT_FILE")
    if not named:
        return True
    try:
        return ssl.create_default_context(cafile=named)
    except OSError as error:
        raise InvalidAuthority(Path(named), error) from error


def segment(name: str) -> str:
    return quote(name, safe="")


def _given(query: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in query.items() if value not in (None, "", [])}


def _parsed(values: Mapping[str, Any], reply: type[M]) -> M:
    # A newer platform may say more than this command knows.
    return json_format.ParseDict(dict(values), reply(), ignore_unknown_fields=True)


def _answer_part(text: str) -> episode_service_pb2.EpisodeAnswerPart:
    return _parsed(json.loads(text), episode_service_pb2.EpisodeAnswerPart)


def _event(text: str) -> episode_pb2.EpisodeEvent:
    # An error inside the stream has no "event" fields and raises as a broken stream would.
    response = episode_service_pb2.WatchEpisodeResponse()
    json_format.Parse(f'{{"event": {text}}}', response, ignore_unknown_fields=True)
    if not response.event.sequence:
        raise httpx.RemoteProtocolError("the gateway broke the stream off")
    return response.event
