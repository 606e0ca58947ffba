import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from integration.tool_adapters.adapters_under_test import AdaptersUnderTest
from integration.tool_adapters.servers import CLIENT_SECRET, TokenServer, WebServer, token_server
from integration.tool_adapters.tool_specs import http_spec
from podium.common.v1 import failure_pb2
from podium.registry.v1 import tool_pb2

KEY = tool_pb2.SecretRef(name="weather-key")
VALUE = "s3cr3t &value"


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOL_ADAPTERS_SECRET_WEATHER_KEY", VALUE)
    monkeypatch.setenv("TOOL_ADAPTERS_SECRET_CLIENT", CLIENT_SECRET)


@pytest_asyncio.fixture
async def tokens() -> AsyncIterator[TokenServer]:
    async with token_server() as server:
        yield server


def register(adapters: AdaptersUnderTest, url: str, **auth: Any) -> str:
    return adapters.register(http_spec(url, http={"auth": tool_pb2.HttpAuth(**auth)}))


def with_tokens(adapters: AdaptersUnderTest, server: TokenServer, path: str = "/token") -> str:
    oauth2 = tool_pb2.OAuth2ClientCredentials(
        token_url=server.url + path,
        client_id="podium",
        client_secret=tool_pb2.SecretRef(name="client"),
        scopes=["read", "write"],
    )
    return register(adapters, f"{server.url}/api", oauth2_client_credentials=oauth2)


async def test_a_bearer_token_is_sent(adapters: AdaptersUnderTest, web: WebServer) -> None:
    await adapters.call(register(adapters, f"{web.url}/echo/x", bearer=KEY))
    assert web.seen[0]["headers"]["authorization"] == f"Bearer {VALUE}"


async def test_a_user_name_and_password_are_sent_and_not_repeated(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    encoded = base64.b64encode(f"ada:{VALUE}".encode()).decode()
    basic = tool_pb2.BasicAuth(username="ada", password=KEY)
    # The echo repeats the path: this API gives away what it was sent.
    answer = await adapters.call(register(adapters, f"{web.url}/echo/{encoded}", basic=basic))
    assert web.seen[0]["headers"]["authorization"] == f"Basic {encoded}"
    assert "[secret]" in answer.output.content
    assert encoded not in str(answer)


async def test_a_key_in_the_query_is_sent_and_not_repeated(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    query = tool_pb2.QueryAuth(parameter="key", secret=KEY)
    name = register(adapters, f"{web.url}/echo/x?v=1", query=query)
    answer = await adapters.call(name, {"city": "Oslo"})
    assert web.seen[0]["query"] == {"v": "1", "city": "Oslo", "key": VALUE}
    assert answer.output.content == '{"seen": "/echo/x?v=1&city=Oslo&key=[secret]"}'


async def test_a_call_cannot_bring_a_key_of_its_own(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    query = tool_pb2.QueryAuth(parameter="key", secret=KEY)
    answer = await adapters.call(register(adapters, f"{web.url}/echo/x", query=query), {"key": ""})
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_INVALID_ARGUMENTS
    assert not web.seen


async def test_a_token_is_got_once_and_kept(
    adapters: AdaptersUnderTest, tokens: TokenServer
) -> None:
    name = with_tokens(adapters, tokens)
    answers = await asyncio.gather(*(adapters.call(name) for _ in range(5)))
    assert [answer.output.content for answer in answers] == ['{"said": "Bearer [secret]"}'] * 5
    assert tokens.forms == [{"grant_type": "client_credentials", "scope": "read write"}]


async def test_a_token_about_to_expire_is_replaced(
    adapters: AdaptersUnderTest, tokens: TokenServer
) -> None:
    tokens.expires_in_s = 5
    name = with_tokens(adapters, tokens)
    for number in (1, 2):
        assert (await adapters.call(name)).HasField("output")
        assert tokens.given == number


async def test_a_rejected_token_is_replaced_once(
    adapters: AdaptersUnderTest, tokens: TokenServer
) -> None:
    name = with_tokens(adapters, tokens)
    await adapters.call(name)
    tokens.revoked.add(tokens.newest)
    assert (await adapters.call(name)).HasField("output")
    assert tokens.given == 2
    # An API that rejects every token is not retried without end.
    tokens.revoked |= {f"token-{number:04}" for number in range(10)}
    answer = await adapters.call(name)
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_PERMISSION_DENIED
    assert tokens.given == 3
    assert "token-" not in str(answer)


async def test_a_rejected_client_is_reported_without_its_secret(
    adapters: AdaptersUnderTest, tokens: TokenServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOL_ADAPTERS_SECRET_CLIENT", "wr0ng-s3cret")
    answer = await adapters.call(with_tokens(adapters, tokens))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_PERMISSION_DENIED
    assert answer.failure.message.endswith("status 401: invalid_client")
    assert not tokens.api_headers


async def test_what_is_no_bearer_token_is_not_sent_and_not_shown(
    adapters: AdaptersUnderTest, tokens: TokenServer
) -> None:
    answer = await adapters.call(with_tokens(adapters, tokens, "/strange"))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_MALFORMED_OUTPUT
    assert "mac-token" not in str(answer)
    assert not tokens.api_headers
