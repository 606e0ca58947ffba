"""Calls that cannot be made say what is missing, and are no fault of the platform."""

from typing import Any

import pytest

from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.limits.concurrency import FairSemaphore
from tool_adapters.adapter import Adapter, CallFailed, ToolCall
from tool_adapters.calls.attempts import Attempts, CallProgress
from tool_adapters.code.adapter import CodeAdapter
from tool_adapters.http.client import HttpReply, host_of
from tool_adapters.http.oauth2_tokens import OAuth2Tokens
from tool_adapters.models import (
    CodeConnection,
    Connection,
    HttpConnection,
    OAuth2Auth,
    RetrievalConnection,
    SideEffect,
    ToolDefinition,
    ToolKind,
)
from tool_adapters.retrieval.adapter import RetrievalAdapter
from tool_adapters.secret_store import MountedSecrets

UNREACHED: Any = None


def tool_of(kind: ToolKind, connection: Connection) -> ToolDefinition:
    """Its owner's schema asks for nothing."""
    schema = {"type": "object"}
    return ToolDefinition("t", 1, kind, schema, None, connection, SideEffect.PURE)


@pytest.mark.parametrize(
    ("kind", "connection", "arguments", "words"),
    [
        (ToolKind.RETRIEVAL, RetrievalConnection("laws"), {}, "give query"),
        (ToolKind.RETRIEVAL, RetrievalConnection("laws"), {"query": "x", "top_k": "few"}, "top_k"),
        (ToolKind.CODE, CodeConnection(), {"program": "6 * 7"}, "give code"),
    ],
)
async def test_arguments_that_only_the_adapter_needs_are_asked_for(
    kind: ToolKind, connection: Connection, arguments: dict[str, Any], words: str
) -> None:
    adapters: dict[ToolKind, Adapter] = {
        ToolKind.RETRIEVAL: RetrievalAdapter(UNREACHED),
        ToolKind.CODE: CodeAdapter(UNREACHED, FairSemaphore(1)),
    }
    call = ToolCall("k", "e", "t", 1, arguments, "", "", 0, "acme")
    attempts = Attempts(adapters)
    answer = await attempts.make(CallProgress(call, tool_of(kind, connection)))
    assert isinstance(answer.outcome, ToolFailure)
    assert answer.outcome.kind is FailureKind.INVALID_ARGUMENTS
    assert words in answer.outcome.message
    assert answer.unsent


@pytest.mark.parametrize("port", ["65536", "http", "-1", "0"])
def test_a_port_that_is_none_is_no_url(port: str) -> None:
    with pytest.raises(CallFailed, match="not an http or https URL"):
        host_of(f"https://api.example.com:{port}/v1")


async def test_a_token_that_lasts_for_ever_is_no_token() -> None:
    class Client:
        async def send(self, *_: Any) -> HttpReply:
            body = b'{"access_token": "t0ken", "token_type": "bearer", "expires_in": 1e999}'
            return HttpReply(200, {}, body)

    client: Any = Client()
    secrets = MountedSecrets(None, {"TOOL_ADAPTERS_SECRET_ACME__KEY": "s3cr3t-value"})
    auth = OAuth2Auth("https://login.example.com/token", "podium", "key")
    tool = tool_of(ToolKind.HTTP, HttpConnection("GET", "https://api.example.com", auth=auth))
    with pytest.raises(CallFailed, match="something else than a bearer token"):
        await OAuth2Tokens(client, secrets).token(auth, "acme", tool)
