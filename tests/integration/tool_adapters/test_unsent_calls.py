import pytest

from integration.misbehaviour.grpc_server import METHOD, descriptor_set
from integration.tool_adapters.adapters_under_test import AdaptersUnderTest
from integration.tool_adapters.tool_specs import (
    ANY_OBJECT,
    http_spec,
    llm_spec,
    mcp_http_spec,
    tool_limits,
    tool_spec,
)
from integration.tool_adapters.web_server import WebServer
from podium.common.v1 import failure_pb2
from podium.registry.v1 import tool_pb2
from podium_kit.embedded.ports import free_port

KINDS = ("http", "mcp", "llm", "grpc")
UNKNOWN_HOST = "nobody.invalid"


def spec_of(kind: str, host: str, port: int) -> tool_pb2.ToolSpec:
    match kind:
        case "http":
            return http_spec(f"http://{host}:{port}/echo/x")
        case "mcp":
            return mcp_http_spec("double", f"http://{host}:{port}/mcp")
        case "llm":
            return llm_spec(f"http://{host}:{port}/v1")
        case _:
            grpc = tool_pb2.GrpcConnection(
                target=f"{host}:{port}",
                method=METHOD,
                descriptor_set=descriptor_set(),
                plaintext=True,
            )
            connection = tool_pb2.Connection(grpc=grpc)
            return tool_spec("grpc", "GRPC", ANY_OBJECT, connection=connection)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("host", ["127.0.0.1", UNKNOWN_HOST])
async def test_without_a_connection_nothing_was_used(
    adapters: AdaptersUnderTest, kind: str, host: str
) -> None:
    spec = spec_of(kind, host, free_port())
    answer = await adapters.call(adapters.register(spec), task="Hello?")
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE
    assert (answer.unsent, list(answer.usage.quantities), answer.attempts) == (True, [], 1)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_address_that_is_not_public_is_never_sent_anything(
    adapters: AdaptersUnderTest, web: WebServer, kind: str
) -> None:
    port = int(web.url.rpartition(":")[2])
    tool = adapters.register(spec_of(kind, "127.0.0.1", port), shared=False)
    answer = await adapters.call(tool, task="Hello?")
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_PERMISSION_DENIED
    assert (answer.unsent, list(answer.usage.quantities)) == (True, [])
    assert not web.seen


@pytest.mark.parametrize("kind", ["http", "mcp"])
async def test_an_owner_may_charge_for_it(adapters: AdaptersUnderTest, kind: str) -> None:
    spec = spec_of(kind, "127.0.0.1", free_port())
    spec.charges_unsent_calls = True
    answer = await adapters.call(adapters.register(spec))
    assert not answer.unsent
    assert [quantity.amount for quantity in answer.usage.quantities] == ["1"]


async def test_what_was_sent_is_charged_whatever_came_back(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    for path in ("reset", "status/500"):
        spec = http_spec(f"{web.url}/{path}", limits=tool_limits(attempts=1))
        spec.name = path.replace("/", "-")
        answer = await adapters.call(adapters.register(spec))
        assert answer.HasField("failure")
        assert not answer.unsent
        assert [quantity.amount for quantity in answer.usage.quantities] == ["1"]


async def test_one_attempt_that_was_sent_is_charged_alone(adapters: AdaptersUnderTest) -> None:
    async with WebServer() as server:
        port = int(server.url.rpartition(":")[2])
        spec = http_spec(f"{server.url}/reset", limits=tool_limits(attempts=1))
        sent = await adapters.call(adapters.register(spec))
    spec = http_spec(f"http://127.0.0.1:{port}/reset", limits=tool_limits(attempts=3))
    spec.name = "later"
    refused = await adapters.call(adapters.register(spec))
    assert (sent.unsent, refused.unsent, refused.attempts) == (False, True, 3)


@pytest.mark.parametrize(
    ("url", "arguments"),
    [
        ("http://127.0.0.1:1/items/{id}", {"id": ".."}),
        ("http://127.0.0.1:1/items/{id}", {}),
        ("ftp://127.0.0.1/items", {}),
    ],
)
async def test_a_request_that_cannot_be_made_is_free(
    adapters: AdaptersUnderTest, url: str, arguments: dict[str, str]
) -> None:
    answer = await adapters.call(adapters.register(http_spec(url)), arguments)
    assert (answer.unsent, list(answer.usage.quantities)) == (True, [])


async def test_arguments_that_do_not_fit_are_free(adapters: AdaptersUnderTest) -> None:
    spec = http_spec("http://127.0.0.1:1/", parameters={"type": "object", "required": ["q"]})
    answer = await adapters.call(adapters.register(spec), {})
    assert (answer.unsent, answer.attempts, list(answer.usage.quantities)) == (True, 0, [])


async def test_a_missing_secret_is_noticed_before_anything_is_sent(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    http = {"secret": tool_pb2.SecretRef(name="nowhere"), "secret_header": "X-Key"}
    answer = await adapters.call(adapters.register(http_spec(f"{web.url}/echo/x", http=http)))
    assert (answer.unsent, web.seen) == (True, [])
