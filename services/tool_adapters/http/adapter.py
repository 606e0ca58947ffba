"""Tools of kind http: one operation of an HTTP API."""

import json
import re
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from podium_kit.failures import FailureKind, ToolFailure
from tool_adapters.adapter import AdapterResult, CallFailed, Output, OutputFile, ToolCall
from tool_adapters.http.auth import HttpAuthenticator
from tool_adapters.http.client import HttpClient, HttpReply, HttpRequest, status_failure
from tool_adapters.models import HttpAuth, HttpConnection, JsonObject, Place, ToolDefinition
from tool_adapters.secret_store import PLATFORM

WITHOUT_BODY = {"GET", "DELETE", "HEAD"}
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_TEXT = re.compile(r"text/.*|application/(.*\+)?(json|xml|javascript|yaml)|")
_JSON = re.compile(r"application/(.*\+)?json")


class HttpAdapter:
    """Puts arguments where the operation wants them and reads the answer."""

    def __init__(self, client: HttpClient, authenticator: HttpAuthenticator) -> None:
        self._client = client
        self._authenticator = authenticator

    async def invoke(self, call: ToolCall, tool: ToolDefinition) -> AdapterResult:
        """The body of a success, or the failure its status means."""
        assert isinstance(tool.connection, HttpConnection)
        call.cut.unsent = True
        request = request_of(tool.connection, call.arguments)
        reply = await self._authenticated(request, tool.connection.auth, call, tool)
        return AdapterResult(status_failure(reply) or _output(reply))

    async def _authenticated(
        self, request: HttpRequest, auth: HttpAuth | None, call: ToolCall, tool: ToolDefinition
    ) -> HttpReply:
        if auth is None:
            return await self._client.send(request, tool, call.cut)
        owner = PLATFORM if tool.shared else call.tenant
        signed = await self._signed(request, auth, owner, tool)
        reply = await self._client.send(signed, tool, call.cut)
        if reply.status == HTTPStatus.UNAUTHORIZED and self._authenticator.renew(
            auth, owner, signed
        ):
            # The API did nothing yet, so also an effectful tool may be asked once more.
            signed = await self._authenticator.signed(request, auth, owner, tool)
            reply = await self._client.send(signed, tool)
        return reply

    async def _signed(
        self, request: HttpRequest, auth: HttpAuth, owner: str, tool: ToolDefinition
    ) -> HttpRequest:
        """Raises CallFailed: without its credential the request is not sent."""
        try:
            return await self._authenticator.signed(request, auth, owner, tool)
        except CallFailed as error:
            error.unsent = True
            raise

    async def close_episode(self, tenant: str, episode_id: str) -> None:
        """Requests hold nothing."""

    async def close(self) -> None:
        """The client belongs to the server."""


def request_of(connection: HttpConnection, arguments: JsonObject) -> HttpRequest:
    """The request of a call. Arguments cannot leave the place they are put in."""
    placed: dict[Place, JsonObject] = {place: {} for place in Place}
    for name, value in arguments.items():
        placed[_place(connection, name)][name] = value
    url = _with_path(connection.url_template, placed[Place.PATH])
    if placed[Place.QUERY]:
        query = urlencode(_pairs(placed[Place.QUERY]))
        url = f"{url}{'&' if '?' in url else '?'}{query}"
    sent = {name: _header(name, value) for name, value in placed[Place.HEADER].items()}
    has_body = placed[Place.BODY] or connection.method.upper() not in WITHOUT_BODY
    body = placed[Place.BODY] if has_body else None
    # The operation's own headers win over what the model wrote.
    return HttpRequest(connection.method.upper(), url, sent | dict(connection.headers), body)


def _place(connection: HttpConnection, name: str) -> Place:
    if name in connection.places:
        return connection.places[name]
    if f"{{{name}}}" in connection.url_template:
        return Place.PATH
    return Place.QUERY if connection.method.upper() in WITHOUT_BODY else Place.BODY


def _with_path(template: str, values: JsonObject) -> str:
    """The URL; a value is one path segment, whatever is in it."""
    scheme, separator, rest = template.partition("://")
    host, slash, path = rest.partition("/")
    if _PLACEHOLDER.search(host):
        message = "the URL's host must not be a parameter"
        raise CallFailed(FailureKind.UNAVAILABLE, message, unsent=True)

    def value_of(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise _unusable(f"{match[1]} is needed for the path")
        segment = quote(_text(values[match[1]]), safe="")
        if segment in {"", ".", ".."}:
            # Servers read these as another path, that is, another operation.
            message = f"{match[1]} is {segment!r}, which cannot be part of a path"
            raise _unusable(message)
        return segment

    return scheme + separator + host + slash + _PLACEHOLDER.sub(value_of, path)


def _pairs(values: JsonObject) -> list[tuple[str, str]]:
    """Query parameters; a list repeats its name."""
    return [
        (name, _text(item))
        for name, value in values.items()
        for item in (value if isinstance(value, list) else [value])
    ]


def _header(name: str, value: Any) -> str:
    text = _text(value)
    if not text.isprintable():
        message = f"{name} goes into a header and must be one line of printable characters"
        raise _unusable(message)
    return text


def _unusable(message: str) -> CallFailed:
    """The failure of arguments that no request can be made of."""
    return CallFailed(FailureKind.INVALID_ARGUMENTS, message, unsent=True)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _output(reply: HttpReply) -> Output | ToolFailure:
    if not _TEXT.fullmatch(reply.media_type):
        file = OutputFile("response", reply.media_type, reply.body)
        return Output(f"{len(reply.body)} bytes of {reply.media_type}", files=(file,))
    if not _JSON.fullmatch(reply.media_type) or not reply.body:
        return Output(reply.text)
    try:
        json.loads(reply.body)
    except (ValueError, RecursionError):
        message = f"the tool answered with {reply.media_type} that is not JSON"
        return ToolFailure(FailureKind.MALFORMED_OUTPUT, message)
    return Output(reply.text, reply.text)
