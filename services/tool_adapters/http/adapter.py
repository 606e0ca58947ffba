import re
from http import HTTPStatus

from podium_kit.failures import FailureKind, ToolFailure
from tool_adapters.adapter import (
    Adapter,
    AdapterResult,
    CallFailed,
    Output,
    OutputFile,
    ToolCall,
    reply_json,
)
from tool_adapters.http.auth import HttpAuthenticator
from tool_adapters.http.client import HttpClient, HttpReply, HttpRequest, status_failure
from tool_adapters.http.requests import request_of
from tool_adapters.models import HttpAuth, HttpConnection, ToolDefinition
from tool_adapters.secret_store import PLATFORM

_TEXT = re.compile(
    r"text/.*|application/((.*\+)?(json|xml|javascript|yaml)|x-ndjson|x-www-form-urlencoded)|"
)
_JSON = re.compile(r"application/(.*\+)?json")


class HttpAdapter(Adapter):
    def __init__(self, client: HttpClient, authenticator: HttpAuthenticator) -> None:
        self._client = client
        self._authenticator = authenticator

    async def invoke(self, call: ToolCall, tool: ToolDefinition) -> AdapterResult:
        assert isinstance(tool.connection, HttpConnection)
        call.cut.unsent = True
        request = request_of(tool.connection, call.arguments)
        owner = PLATFORM if tool.shared else call.tenant
        for key in tool.connection.keys:
            request = await self._signed(request, key, owner, tool)
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
            try:
                signed = await self._authenticator.signed(request, auth, owner, tool)
                return await self._client.send(signed, tool)
            except CallFailed as error:
                # The rejected request has left.
                error.unsent = False
                raise
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


def _output(reply: HttpReply) -> Output | ToolFailure:
    if not _TEXT.fullmatch(reply.media_type):
        file = OutputFile("response", reply.media_type, reply.body)
        # What the model cannot see is named.
        words = f"{len(reply.body)} bytes of {reply.media_type}: no text, kept as the file response"
        return Output(words, files=(file,))
    text = reply.text
    if not _JSON.fullmatch(reply.media_type) or not text:
        return Output(text)
    try:
        reply_json(reply.body)
    except (ValueError, RecursionError):
        message = f"the tool answered with {reply.media_type} that is not JSON"
        return ToolFailure(FailureKind.MALFORMED_OUTPUT, message)
    return Output(text, text)
