import json
from typing import Any

import pytest

from integration.tool_adapters.adapters_under_test import AdaptersUnderTest
from integration.tool_adapters.servers import WebServer
from integration.tool_adapters.tool_specs import (
    http_spec,
    llm_spec,
    mcp_http_spec,
    tool_limits,
)
from podium.common.v1 import failure_pb2
from podium.registry.v1 import tool_pb2

PATH = tool_pb2.PARAMETER_LOCATION_PATH
HEADER = tool_pb2.PARAMETER_LOCATION_HEADER
SECRET: dict[str, Any] = {"secret": tool_pb2.SecretRef(name="weather-key")}


async def test_arguments_go_where_the_operation_wants_them(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    spec = http_spec(
        f"{web.url}/echo/shops/{{shop}}/orders",
        "POST",
        http={
            "parameter_locations": {"shop": PATH, "trace": HEADER},
            "headers": {"x-client": "podium"},
        },
    )
    arguments = {"shop": "a/b ?x", "trace": "t-1", "item": "tea", "count": 2}
    answer = await adapters.call(adapters.register(spec), arguments)
    assert answer.HasField("output")
    assert web.seen[0]["path"] == "/echo/shops/a%2Fb%20%3Fx/orders"
    assert web.seen[0]["headers"]["trace"] == "t-1"
    assert web.seen[0]["headers"]["x-client"] == "podium"
    assert json.loads(web.seen[0]["body"]) == {"item": "tea", "count": 2}


async def test_unlisted_arguments_of_a_get_go_to_the_query(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    name = adapters.register(http_spec(f"{web.url}/echo/find?v=1"))
    await adapters.call(name, {"q": "tea & milk", "tag": ["a", "b"], "new": True})
    assert web.seen[0]["path"] == "/echo/find?v=1&q=tea%20%26%20milk&tag=a&tag=b&new=true"
    assert not web.seen[0]["body"]


@pytest.mark.parametrize("segment", ["..", ".", ""])
async def test_an_argument_cannot_climb_out_of_its_place_in_the_path(
    adapters: AdaptersUnderTest, web: WebServer, segment: str
) -> None:
    name = adapters.register(http_spec(f"{web.url}/echo/users/{{name}}/profile"))
    answer = await adapters.call(name, {"name": segment})
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_INVALID_ARGUMENTS
    assert not web.seen


async def test_an_argument_cannot_add_a_header(adapters: AdaptersUnderTest, web: WebServer) -> None:
    spec = http_spec(f"{web.url}/echo/x", http={"parameter_locations": {"trace": HEADER}})
    answer = await adapters.call(adapters.register(spec), {"trace": "1\r\nX-Admin: yes"})
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_INVALID_ARGUMENTS
    assert not web.seen


async def test_an_argument_cannot_choose_the_host(adapters: AdaptersUnderTest) -> None:
    name = adapters.register(http_spec("http://{host}/x"))
    answer = await adapters.call(name, {"host": "127.0.0.1"})
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE
    assert "host must not be a parameter" in answer.failure.message


async def test_a_secret_reaches_the_api_and_never_an_answer(
    adapters: AdaptersUnderTest, web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOL_ADAPTERS_SECRET_WEATHER_KEY", "s3cr3t-value")
    connection = SECRET | {"secret_header": "X-Api-Key", "secret_prefix": "Key "}
    # The echo repeats the path, so this API gives away what it was sent.
    spec = http_spec(f"{web.url}/echo/s3cr3t-value", http=connection)
    answer = await adapters.call(adapters.register(spec))
    assert web.seen[0]["headers"]["x-api-key"] == "Key s3cr3t-value"
    assert json.loads(answer.output.content) == {"seen": "/echo/[secret]"}
    assert "s3cr3t-value" not in str(answer)


async def test_a_missing_secret_is_named(adapters: AdaptersUnderTest, web: WebServer) -> None:
    answer = await adapters.call(adapters.register(http_spec(f"{web.url}/echo/x", http=SECRET)))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_PERMISSION_DENIED
    assert "TOOL_ADAPTERS_SECRET_WEATHER_KEY" in answer.failure.message
    assert (answer.unsent, web.seen) == (True, [])


async def test_a_tenants_tool_does_not_get_the_platforms_secret(
    adapters: AdaptersUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOL_ADAPTERS_SECRET_WEATHER_KEY", "s3cr3t-value")
    spec = http_spec("https://thief.example/", http=SECRET)
    answer = await adapters.call(adapters.register(spec, shared=False))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_PERMISSION_DENIED
    assert "TOOL_ADAPTERS_SECRET_ACME__WEATHER_KEY" in answer.failure.message


async def test_json_that_is_cut_off_is_malformed(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    answer = await adapters.call(adapters.register(http_spec(f"{web.url}/not-json")))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_MALFORMED_OUTPUT


async def test_a_body_of_100_mb_is_not_read_beyond_the_tools_limit(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    spec = http_spec(f"{web.url}/hundred-megabytes", limits=tool_limits(output_bytes=100_000))
    answer = await adapters.call(adapters.register(spec))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_OUTPUT_TOO_LARGE
    assert web.sent_bytes < 50 * 1024 * 1024


async def test_a_server_that_hangs_times_out_and_is_disconnected(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    spec = http_spec(f"{web.url}/slow/3600", limits=tool_limits(timeout_s=0.3))
    answer = await adapters.call(adapters.register(spec))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_TIMEOUT
    assert answer.failure.retryable
    assert answer.attempts == 1
    assert answer.usage.quantities[0].amount == "1"
    await web.until("cancelled", 1)


async def test_a_reset_connection_is_tried_again_and_then_unavailable(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    spec = http_spec(f"{web.url}/reset", limits=tool_limits(attempts=3))
    answer = await adapters.call(adapters.register(spec))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE
    assert answer.attempts == 3


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (401, failure_pb2.FAILURE_KIND_PERMISSION_DENIED, False),
        (404, failure_pb2.FAILURE_KIND_NOT_FOUND, False),
        (422, failure_pb2.FAILURE_KIND_TOOL_ERROR, False),
        (500, failure_pb2.FAILURE_KIND_TOOL_ERROR, True),
        (503, failure_pb2.FAILURE_KIND_UNAVAILABLE, True),
    ],
)
async def test_a_status_says_what_failed(
    adapters: AdaptersUnderTest,
    web: WebServer,
    status: int,
    kind: failure_pb2.FailureKind.ValueType,
    retryable: bool,
) -> None:
    answer = await adapters.call(adapters.register(http_spec(f"{web.url}/status/{status}")))
    assert answer.failure.kind == kind
    assert answer.failure.retryable == retryable
    assert f"status {status}: said by the API" in answer.failure.message


async def test_a_rate_limit_says_how_long_to_wait(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    # The wait of 7 s does not fit the tool's 5 s, so there is no second attempt.
    spec = http_spec(f"{web.url}/status/429", limits=tool_limits(timeout_s=5, attempts=3))
    answer = await adapters.call(adapters.register(spec))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_RATE_LIMITED
    assert answer.failure.retry_after.ToSeconds() == 7
    assert answer.attempts == 1


async def test_a_redirect_is_not_followed(adapters: AdaptersUnderTest, web: WebServer) -> None:
    answer = await adapters.call(adapters.register(http_spec(f"{web.url}/redirect")))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_TOOL_ERROR
    assert not web.seen


async def test_what_is_no_text_comes_as_a_file(adapters: AdaptersUnderTest, web: WebServer) -> None:
    answer = await adapters.call(adapters.register(http_spec(f"{web.url}/image")))
    assert answer.output.files[0].data == b"\x89PNG"
    assert answer.output.files[0].media_type == "image/png"


OWN_KEY = tool_pb2.SecretRef(name="key")


def http_specs(url: str, own_url: str) -> list[tool_pb2.ToolSpec]:
    oauth2 = tool_pb2.OAuth2ClientCredentials(
        token_url=f"{url}/token", client_id="podium", client_secret=OWN_KEY
    )
    mcp = mcp_http_spec("double", f"{url}/mcp")
    mcp.connection.mcp.http.secret.name = OWN_KEY.name
    return [
        http_spec(f"{url}/x", http={"secret": OWN_KEY, "secret_header": "X-Api-Key"}),
        *(
            http_spec(f"{of}/x", http={"auth": auth})
            for of, auth in (
                (url, tool_pb2.HttpAuth(bearer=OWN_KEY)),
                (url, tool_pb2.HttpAuth(basic=tool_pb2.BasicAuth(username="a", password=OWN_KEY))),
                (url, tool_pb2.HttpAuth(query=tool_pb2.QueryAuth(parameter="k", secret=OWN_KEY))),
                (own_url, tool_pb2.HttpAuth(oauth2_client_credentials=oauth2)),
            )
        ),
        mcp,
        llm_spec(f"{url}/v1", secret=OWN_KEY.name),
        llm_spec(f"{url}/v1", "ANTHROPIC_MESSAGES", secret=OWN_KEY.name),
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
