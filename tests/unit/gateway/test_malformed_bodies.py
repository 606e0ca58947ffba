from typing import Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.responses import JSONResponse

from gateway.audit.redaction import REDACTED, redacted
from gateway.chat.request import ChatRequest
from gateway.http.error_responses import error_response, malformed_request
from gateway.http.request_body import require_texts
from podium_kit.rpc.identity import Role

JSON = "application/json"


def app() -> FastAPI:
    made = FastAPI(dependencies=[Depends(require_texts)])

    @made.post("/")
    async def ask(body: ChatRequest) -> dict[str, str]:
        return {"model": body.model}

    @made.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        return error_response(malformed_request(error))

    return made


async def send(body: bytes, content_type: str = JSON) -> httpx.Response:
    transport = httpx.ASGITransport(app())
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
        return await http.post("/", content=body, headers={"content-type": content_type})


@pytest.mark.parametrize(
    ("body", "content_type", "words"),
    [
        # As `curl -d` sends it.
        (b'{"model": "podium"}', "application/x-www-form-urlencoded", "header Content-Type: app"),
        (b'{"model": "podium",}', JSON, "is not JSON: Expecting property name"),
        (b'{"model": "podium",}', JSON, "at character 19"),
        (b"[1]", JSON, "must be a JSON object"),
        (b"", JSON, "must be a JSON object"),
    ],
)
async def test_the_fix_is_named_and_no_parameter(
    body: bytes, content_type: str, words: str
) -> None:
    reply = await send(body, content_type)
    error = reply.json()["error"]
    assert (reply.status_code, error["param"]) == (400, None)
    assert words in error["message"]


@pytest.mark.parametrize("text", [r"\ud83d", r"\uDE00", r"\ud83d \ude00", r"\ude00\ud83d"])
async def test_half_a_character_is_found_wherever_it_is(text: str) -> None:
    schema = f'{{"type": "object", "description": "{text}"}}'
    with pytest.raises(UnicodeEncodeError):
        await send(f'{{"model": "podium", "schema": {schema}}}'.encode())


@pytest.mark.parametrize("text", [r"\ud83d\ude00", r"\uD83D\uDE00\ud83d\ude00", r"\\ud83d"])
async def test_a_whole_character_is_none(text: str) -> None:
    body = f'{{"model": "{text}", "messages": [{{"role": "user", "content": "6*7?"}}]}}'
    assert (await send(body.encode())).status_code == 200


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"Authorization": "Bearer abc"}, {"Authorization": REDACTED}),
        ({"headers": [{"x-api-key": "abc"}]}, {"headers": [{"x-api-key": REDACTED}]}),
        ({"password": ""}, {"password": ""}),
        # A reference names a secret; it is not one.
        ({"secret": {"name": "engine"}}, {"secret": {"name": "engine"}}),
        ({"max_tokens": 5, "name": "weather"}, {"max_tokens": 5, "name": "weather"}),
        ({"note": f"use pod_{'0' * 16}_abc please"}, {"note": f"use {REDACTED} please"}),
        ({"note": "eyJhbGciOi.eyJzdWIi.c2ln"}, {"note": REDACTED}),
        ({"roles": [Role.DEVELOPER]}, {"roles": ["developer"]}),
        ({"half \ud83d": "half \ud83d"}, {"half \ud83d": "half \ufffd"}),
        # Quadratic for patterns that go back: it would keep every tenant waiting for minutes.
        ({"description": "eyJ-" * 1_000_000}, {"description": "eyJ-" * 1_000_000}),
        (None, None),
    ],
)
def test_secrets_are_redacted_and_the_rest_stays(value: Any, shown: Any) -> None:
    assert redacted(value) == shown
