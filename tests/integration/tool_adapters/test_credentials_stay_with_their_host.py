import pytest

from integration.tool_adapters.adapters_under_test import AdaptersUnderTest
from integration.tool_adapters.tool_specs import (
    http_spec,
    llm_spec,
    mcp_http_spec,
)
from integration.tool_adapters.web_server import WebServer
from podium.registry.v1 import tool_pb2

KEY = tool_pb2.SecretRef(name="key")


def http_specs(url: str, own_url: str) -> list[tool_pb2.ToolSpec]:
    oauth2 = tool_pb2.OAuth2ClientCredentials(
        token_url=f"{url}/token", client_id="podium", client_secret=KEY
    )
    mcp = mcp_http_spec("double", f"{url}/mcp")
    mcp.connection.mcp.http.secret.name = KEY.name
    return [
        http_spec(f"{url}/x", http={"secret": KEY, "secret_header": "X-Api-Key"}),
        *(
            http_spec(f"{of}/x", http={"auth": auth})
            for of, auth in (
                (url, tool_pb2.HttpAuth(bearer=KEY)),
                (url, tool_pb2.HttpAuth(basic=tool_pb2.BasicAuth(username="a", password=KEY))),
                (url, tool_pb2.HttpAuth(query=tool_pb2.QueryAuth(parameter="k", secret=KEY))),
                (own_url, tool_pb2.HttpAuth(oauth2_client_credentials=oauth2)),
            )
        ),
        mcp,
        llm_spec(f"{url}/v1", secret=KEY.name),
        llm_spec(f"{url}/v1", "ANTHROPIC_MESSAGES", secret=KEY.name),
    ]


async def test_no_credential_follows_a_redirect(
    adapters: AdaptersUnderTest, web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOL_ADAPTERS_SECRET_KEY", "s3cr3t-value")
    async with WebServer() as other:
        web.away_url = f"{other.url}/echo/stolen"
        for number, spec in enumerate(http_specs(f"{web.url}/away", f"{web.url}/echo")):
            spec.name, before = f"{spec.name}-{number}", web.requests["/away"]
            answer = await adapters.call(adapters.register(spec), task="Hello?")
            assert answer.HasField("failure"), answer
            assert web.requests["/away"] > before, spec
            assert "s3cr3t" not in str(answer)
        assert not other.seen
        # An API whose token endpoint leads away is not called without a token either.
        assert not web.seen
