"""An API that repeats a credential puts it into no part of an answer."""

from typing import Any

import pytest

from podium_kit.failures import ToolFailure
from tool_adapters.adapter import Answer, Output, ToolCall
from tool_adapters.calls.attempts import Attempts, CallProgress
from tool_adapters.http.adapter import HttpAdapter
from tool_adapters.http.client import WORDS_OF_ERRORS_MAX, HttpReply
from tool_adapters.models import HttpConnection, SideEffect, ToolDefinition, ToolKind
from tool_adapters.used_secrets import used_secrets

SECRET = "s3cr3t-value"


class RepeatingClient:
    """Replies with what a test says."""

    def __init__(self, reply: HttpReply) -> None:
        self._reply = reply

    async def send(self, *_: Any) -> HttpReply:
        used_secrets().add(SECRET)
        return self._reply


async def answer_to(status: int, media_type: str, body: bytes) -> Answer:
    client: Any = RepeatingClient(HttpReply(status, {"content-type": media_type}, body))
    no_credentials: Any = None
    attempts = Attempts({ToolKind.HTTP: HttpAdapter(client, no_credentials)})
    tool = ToolDefinition(
        name="api",
        version=1,
        kind=ToolKind.HTTP,
        parameters_schema={"type": "object"},
        result_schema=None,
        connection=HttpConnection("GET", "https://api.example.com/"),
        side_effect=SideEffect.PURE,
    )
    call = ToolCall("k", "e", "api", 1, {}, "", "", 0, "acme")
    return await attempts.make(CallProgress(call, tool))


@pytest.mark.parametrize(
    "media_type", ["application/x-ndjson", "application/x-www-form-urlencoded"]
)
async def test_lines_of_json_and_forms_are_text(media_type: str) -> None:
    outcome = (await answer_to(200, media_type, f"key={SECRET}".encode())).outcome
    assert outcome == Output("key=[secret]")


async def test_a_file_keeps_every_byte_but_those_of_a_secret() -> None:
    noise = bytes(range(256))
    body = noise + SECRET.encode() + noise + b"\xc3" + SECRET.encode()
    outcome = (await answer_to(200, f"image/{SECRET}", body)).outcome
    assert isinstance(outcome, Output)
    (file,) = outcome.files
    assert file.data == noise + b"[secret]" + noise + b"\xc3[secret]"
    assert file.media_type == "image/[secret]"


async def test_words_of_an_error_are_not_cut_in_a_secret() -> None:
    padding = "x" * (WORDS_OF_ERRORS_MAX - 10)
    outcome = (await answer_to(401, "text/plain", f"{padding} {SECRET} ".encode())).outcome
    assert isinstance(outcome, ToolFailure)
    assert outcome.message.endswith(f"status 401: {padding} ")
