"""HTTP/1.1 to engines: closing a connection is how a completion is aborted."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp
from yarl import URL

CONNECT_TIMEOUT_S = 5.0
# vLLM closes idle connections after 5 s; leaving first avoids a race for the last one.
KEEPALIVE_S = 3.0
LISTING_CONNECTIONS = 4
REPLY_BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True)
class EngineReply:
    status: int
    headers: Mapping[str, str]
    """Names in any case."""

    body: bytes

    @property
    def is_success(self) -> bool:
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")

    def json(self) -> Any:
        """Raises ValueError, and RecursionError for what is nested too deeply."""
        return json.loads(self.body)


class EngineClient:
    """Sends requests to one base URL, or to whole URLs with its key; see `engine_client`."""

    def __init__(self, session: aiohttp.ClientSession, base_url: str, api_key: str | None) -> None:
        self._session = session
        self.base_url = base_url.rstrip("/") + "/"
        self.host = URL(base_url).host_port_subcomponent or base_url
        self.api_key = api_key
        self._headers = {"authorization": f"Bearer {api_key}"} if api_key else {}

    def from_root(self, path: str) -> str:
        """The URL of one of vLLM's own endpoints, which lie beside /v1."""
        return str(URL(self.base_url).join(URL(path)))

    async def send(
        self, method: str, url: str, body: Any = None, *, timeout_s: float | None = None
    ) -> EngineReply:
        """Asks a whole URL, or a path below the base URL, and reads all of the reply.

        `timeout_s` is the longest silence. Raises aiohttp.ClientError.
        """
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=timeout_s or CONNECT_TIMEOUT_S, sock_read=timeout_s
        )
        content = {} if body is None else {"content-type": "application/json"}
        async with self._session.request(
            method,
            url if "://" in url else self.base_url + url,
            data=None if body is None else json.dumps(body),
            headers=self._headers | content,
            timeout=timeout,
            allow_redirects=False,
        ) as response:
            return await whole(response)

    @asynccontextmanager
    async def post(
        self, path: str, body: Any, headers: Mapping[str, str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yields the response before its body is read; leaving early ends the connection."""
        async with self._session.post(
            self.base_url + path,
            data=json.dumps(body),
            headers={**self._headers, "content-type": "application/json", **headers},
            allow_redirects=False,
        ) as response:
            yield response


async def whole(response: aiohttp.ClientResponse) -> EngineReply:
    """Raises aiohttp.ClientPayloadError for a reply of more than REPLY_BYTES_MAX."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > REPLY_BYTES_MAX:
            raise aiohttp.ClientPayloadError(f"its reply has more than {REPLY_BYTES_MAX} bytes")
    return EngineReply(response.status, response.headers, bytes(body))


@asynccontextmanager
async def engine_client(
    base_url: str, api_key: str | None, connections: int
) -> AsyncIterator[EngineClient]:
    connector = aiohttp.TCPConnector(
        limit=connections + LISTING_CONNECTIONS, keepalive_timeout=KEEPALIVE_S
    )
    async with aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
        cookie_jar=aiohttp.DummyCookieJar(),
    ) as session:
        yield EngineClient(session, base_url, api_key)
