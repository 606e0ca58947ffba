"""HTTP requests for tools: sized, guarded, and failing in the tools' own terms.

aiohttp, because its connector lets us check the very address it connects to.
"""

import re
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_reqrep import ConnectionKey
from yarl import URL

from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.http_headers import header_problem, retry_after_s
from podium_kit.rpc.identity import current_identity
from tool_adapters.adapter import CallFailed, CutOff
from tool_adapters.models import ToolDefinition
from tool_adapters.network_guard import ForbiddenAddress, HostNames, NetworkGuard, guarded_socket

CONNECT_TIMEOUT_S = 10.0
WORDS_OF_ERRORS_MAX = 500
# Of an error's body, of which only words are shown; also where an answer may be smaller still.
ERROR_BYTES_MIN = 65_536
_URL_BREAK = re.compile(r"[\x00-\x20\x7f]")
# Secrets are of ASCII; languages without spaces are not. A word is read from its beginning alone.
_CUT_WORD = re.compile(r"(?<![^\s\"'<>,\u0080-\U0010ffff])[^\s\"'<>,\u0080-\U0010ffff]+\Z")
# Longer than any call may take; a number like 1e999 fits no message.
FAILURE_OF_STATUS = {
    HTTPStatus.UNAUTHORIZED: (FailureKind.PERMISSION_DENIED, False),
    HTTPStatus.FORBIDDEN: (FailureKind.PERMISSION_DENIED, False),
    HTTPStatus.NOT_FOUND: (FailureKind.NOT_FOUND, False),
    HTTPStatus.REQUEST_TIMEOUT: (FailureKind.TIMEOUT, True),
    HTTPStatus.TOO_MANY_REQUESTS: (FailureKind.RATE_LIMITED, True),
    HTTPStatus.INTERNAL_SERVER_ERROR: (FailureKind.TOOL_ERROR, True),
    HTTPStatus.BAD_GATEWAY: (FailureKind.UNAVAILABLE, True),
    HTTPStatus.SERVICE_UNAVAILABLE: (FailureKind.UNAVAILABLE, True),
    HTTPStatus.GATEWAY_TIMEOUT: (FailureKind.TIMEOUT, True),
    # Anthropic's "overloaded".
    529: (FailureKind.UNAVAILABLE, True),
}


# The holder and the name of each secret, one after the other.
Credential = tuple[str, ...]
# Connections are kept for requests of one tenant with one credential: what one request leaves in
# a connection is never read as the answer to, or the beginning of, another's.
_keeper: ContextVar[tuple[str, Credential]] = ContextVar("keeper")


@dataclass(frozen=True)
class FormField:
    name: str
    value: str
    is_file: bool = False


@dataclass(frozen=True)
class HttpRequest:
    """A request; its content is the one of `json`, `form`, `multipart`, `body` that is not None."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    form: Sequence[tuple[str, str]] | None = None
    multipart: Sequence[FormField] | None = None
    # As it is: what is signed must not be written anew.
    body: bytes | None = None
    credential: Credential = ()


@dataclass(frozen=True)
class HttpReply:
    """Header names are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def text(self) -> str:
        """The body as text; invalid UTF-8 is replaced."""
        return self.body.decode(errors="replace")


class HttpClient:
    """Two sessions: one that checks addresses and one for those the operator trusts."""

    def __init__(self, guard: NetworkGuard) -> None:
        self._guard = guard
        self._guarded = _session(guard.names, socket_factory=guarded_socket)
        self._trusted = _session(guard.names)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._guarded.close()
        await self._trusted.close()

    async def send(
        self, request: HttpRequest, tool: ToolDefinition, cut: CutOff | None = None
    ) -> HttpReply:
        """The reply. Raises CallFailed when none arrives, or one above the tool's limit."""
        async with self.opened(request, tool, cut) as arriving:
            return await arriving.whole(tool.limits.max_output_bytes)

    @asynccontextmanager
    async def opened(
        self, request: HttpRequest, tool: ToolDefinition | None = None, cut: CutOff | None = None
    ) -> AsyncIterator["ArrivingReply"]:
        """The reply as soon as its headers are there. Raises CallFailed, also in the block. `cut`
        records when the request leaves, for a call that is cut off.
        """
        host = host_of(request.url)
        for name, value in request.headers.items():
            if problem := header_problem(name, value):
                raise CallFailed(FailureKind.INVALID_ARGUMENTS, problem, unsent=True)
        tenant = current_identity().tenant
        trusted = self._guard.trusts(tenant, tool, host)
        session = self._trusted if trusted else self._guarded
        cut = cut or CutOff()
        cut.unsent = True
        _keeper.set((tenant, request.credential))
        try:
            async with _asked(session, request, cut) as response:
                yield ArrivingReply(response)
        except (aiohttp.ClientError, OSError) as error:
            raise _no_reply(host, error, unsent=cut.unsent) from error


class ArrivingReply:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}

    def chunks(self) -> AsyncIterator[bytes]:
        return aiter(self._response.content.iter_any())

    async def whole(self, bytes_max: int) -> HttpReply:
        """The reply with its body. Raises CallFailed when it is larger.

        Of an error the beginning will do: its status says what happened, and whether to try again.
        """
        failed = not is_success(self.status)
        most = max(bytes_max, ERROR_BYTES_MIN) if failed else bytes_max
        chunks: list[bytes] = []
        size = 0
        async for chunk in self.chunks():
            chunks.append(chunk)
            size += len(chunk)
            if size > most:
                # What is left would otherwise be read to keep the connection.
                self._response.close()
                if failed:
                    break
                raise too_many_bytes(bytes_max)
        # One chunk, as most replies are, is not copied.
        return HttpReply(self.status, self.headers, b"".join(chunks))


def too_many_bytes(bytes_max: int) -> CallFailed:
    message = f"the answer is larger than {bytes_max} bytes; ask for less"
    return CallFailed(FailureKind.OUTPUT_TOO_LARGE, message)


def _asked(
    session: aiohttp.ClientSession, request: HttpRequest, cut: CutOff
) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
    return session.request(
        request.method,
        # The path and the query are encoded already.
        URL(request.url, encoded=True),
        headers=request.headers,
        json=request.json,
        data=_data(request),
        allow_redirects=False,
        trace_request_ctx=cut,
    )


def is_success(status: int) -> bool:
    return HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES


def status_failure(reply: HttpReply, words: str = "") -> ToolFailure | None:
    """The failure a status means; None for a success. `words` replace the body's."""
    if is_success(reply.status):
        return None
    if reply.status < HTTPStatus.BAD_REQUEST:
        message = f"the tool redirects (status {reply.status}), which is not followed"
        return ToolFailure(FailureKind.TOOL_ERROR, message)
    kind, retryable = FAILURE_OF_STATUS.get(reply.status, (FailureKind.TOOL_ERROR, False))
    text = (words or reply.text).strip()
    if len(text) > WORDS_OF_ERRORS_MAX:
        # Half of a secret would not be recognised as one.
        text = _CUT_WORD.sub("", text[:WORDS_OF_ERRORS_MAX])
    message = f"the tool answered with status {reply.status}" + (f": {text}" if text else "")
    return ToolFailure(kind, message, retryable, retry_after_s(reply.headers))


def _data(request: HttpRequest) -> Any:
    if request.body is not None:
        return request.body
    if request.form is not None:
        return aiohttp.FormData(list(request.form))
    if request.multipart is None:
        return None
    # Multipart also where no field is a file.
    data = aiohttp.FormData(default_to_multipart=True)
    for each in request.multipart:
        if each.is_file:
            data.add_field(each.name, each.value.encode(), filename=each.name)
        else:
            data.add_field(each.name, each.value)
    return data


async def _note_sent(_session: aiohttp.ClientSession, trace: Any, _sent: Any) -> None:
    trace.trace_request_ctx.note_sent()


class _KeptRequest(aiohttp.ClientRequest):
    """A request whose connection is kept for those of the same tenant and credential."""

    @property
    def connection_key(self) -> ConnectionKey:
        # A part of the key that requests without a proxy leave empty; keys are compared as a whole.
        return super().connection_key._replace(
            proxy_headers_hash=_keeper.get()  # type: ignore[arg-type]
        )


class _Resolver(AbstractResolver):
    def __init__(self, names: HostNames) -> None:
        self._names = names

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        tenant, _ = _keeper.get()
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=found,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for found, _, protocol, _, address in await self._names.addresses(tenant, host, port)
        ]

    async def close(self) -> None: ...


def _session(names: HostNames, **sockets: Any) -> aiohttp.ClientSession:
    # Its cache is one for all tenants, in which one waits for what another looks up.
    connector = aiohttp.TCPConnector(
        limit=0, resolver=_Resolver(names), use_dns_cache=False, **sockets
    )
    leaving = aiohttp.TraceConfig()
    # Before it a connection was made, and no more.
    leaving.on_request_headers_sent.append(_note_sent)
    session = aiohttp.ClientSession(
        connector=connector,
        request_class=_KeptRequest,
        trace_configs=[leaving],
        # A cookie of one tenant's call must not travel with another's.
        cookie_jar=aiohttp.DummyCookieJar(),
        # The service limits the whole call; only a dead address needs an own limit.
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
        trust_env=False,
    )
    # It would send a GET, PUT or DELETE again by itself; whether to is the tool's to say. There
    # is no public switch: aiohttp's own test client sets the same attribute.
    session._retry_connection = False
    return session


def host_of(url: str) -> str:
    """The host of an http or https URL. Raises CallFailed for anything else.

    User information and backslashes are rejected: some readers of a URL take what is before them
    for the host and others what is after (RFC 3986, section 7.6). Spaces and line breaks would end
    the request's first line.
    """
    try:
        parts = urlsplit(url)
        # Also a port that is none is a ValueError.
        host = parts.hostname if parts.port != 0 else None
    except ValueError:
        host = None
    if not host or parts.scheme not in {"http", "https"}:
        message = "the tool's URL is not an http or https URL"
        raise CallFailed(FailureKind.UNAVAILABLE, message, unsent=True)
    if "@" in parts.netloc or "\\" in url:
        message = "the tool's URL holds user information or a backslash; name a secret instead"
        raise CallFailed(FailureKind.PERMISSION_DENIED, message, unsent=True)
    if _URL_BREAK.search(url):
        message = "the tool's URL holds a space or line break; write it percent-encoded"
        raise CallFailed(FailureKind.PERMISSION_DENIED, message, unsent=True)
    return host


def _no_reply(host: str, error: Exception, *, unsent: bool) -> CallFailed:
    failure = _failure_without_reply(host, error)
    return CallFailed(failure.kind, failure.message, failure.retryable, unsent=unsent)


def _failure_without_reply(host: str, error: Exception) -> ToolFailure:
    cause = getattr(error, "os_error", error)
    if isinstance(cause, ForbiddenAddress):
        return ToolFailure(FailureKind.PERMISSION_DENIED, f"{host}: {cause.strerror}")
    if isinstance(error, aiohttp.InvalidURL):
        return ToolFailure(FailureKind.UNAVAILABLE, f"{host} is no host name or address")
    if isinstance(error, TimeoutError):
        return ToolFailure(FailureKind.TIMEOUT, f"{host} does not accept connections", True)
    reason = getattr(cause, "strerror", None) or type(error).__name__
    return ToolFailure(FailureKind.UNAVAILABLE, f"{host} cannot be reached: {reason}", True)
