import asyncio
import json

import grpc
import pytest

from integration.tool_adapters.adapters_under_test import (
    AdaptersUnderTest,
)
from integration.tool_adapters.servers import WebServer
from integration.tool_adapters.tool_specs import (
    ANY_OBJECT,
    calculator_spec,
    connecting_specs,
    http_spec,
    tool_limits,
    tool_spec,
)
from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.common.v1 import failure_pb2, usage_pb2
from podium.registry.v1 import tool_pb2
from podium_kit.embedded.ports import free_port
from podium_kit.rpc.identity import Scope
from tool_adapters.calls.bulkheads import FAILURES_TO_OPEN


async def test_a_call_answers_with_output_usage_price_and_time(
    adapters: AdaptersUnderTest,
) -> None:
    answer = await adapters.call(
        adapters.register(calculator_spec()), {"expression": "2 * (3 + 4)"}
    )
    assert "14" in answer.output.content
    assert json.loads(answer.output.content_json) == json.loads(answer.output.content)
    assert answer.sku == "calculator-sku"
    assert answer.attempts == 1
    assert answer.latency.ToNanoseconds() > 0
    assert [(q.dimension, q.amount) for q in answer.usage.quantities] == [
        (usage_pb2.USAGE_DIMENSION_CALL, "1")
    ]


async def test_arguments_that_do_not_fit_say_where_and_what_is_expected(
    adapters: AdaptersUnderTest,
) -> None:
    name = adapters.register(calculator_spec())
    wrong_type = await adapters.call(name, {"expression": 7})
    missing = await adapters.call(name, {})
    too_long = await adapters.call(name, {"expression": "1" * 501})
    no_json = await adapters.call(name, "{oops")
    assert {answer.failure.kind for answer in (wrong_type, missing, too_long, no_json)} == {
        failure_pb2.FAILURE_KIND_INVALID_ARGUMENTS
    }
    assert "/expression" in wrong_type.failure.message
    assert "string" in wrong_type.failure.message
    assert "'expression' is a required property" in missing.failure.message
    assert '{"maxLength": 500}' in too_long.failure.message
    assert "not JSON" in no_json.failure.message


async def test_a_call_that_was_not_made_used_nothing(adapters: AdaptersUnderTest) -> None:
    answer = await adapters.call(adapters.register(calculator_spec()), {})
    assert answer.attempts == 0
    assert not answer.usage.quantities


async def test_an_unknown_tool_is_an_error_of_the_request(adapters: AdaptersUnderTest) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await adapters.call("nowhere")
    assert error.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_call_without_a_key_is_rejected(adapters: AdaptersUnderTest) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await adapters.call(adapters.register(calculator_spec()), key="")
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "key is empty" in str(error.value.details())


async def test_only_who_may_run_episodes_calls_tools(adapters: AdaptersUnderTest) -> None:
    name = adapters.register(calculator_spec())
    request = pb.InvokeRequest(key="k", episode_id="e", tool_name=name, tool_version=1)
    async with adapters.as_caller(scope=Scope.SPEND_READ) as stranger:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stranger.Invoke(request)
    assert error.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_a_version_is_fetched_once_per_tenant(adapters: AdaptersUnderTest) -> None:
    name = adapters.register(calculator_spec())
    for _ in range(3):
        await adapters.call(name, {"expression": "1"})
    assert adapters.registry.fetches == 1
    request = pb.InvokeRequest(key="k", episode_id="e", tool_name=name, tool_version=1)
    async with adapters.as_caller(tenant="other") as other:
        await other.Invoke(request)
    assert adapters.registry.fetches == 2


async def test_a_pure_tool_is_tried_again_and_every_attempt_is_billed(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    spec = http_spec(f"{web.url}/flaky", limits=tool_limits(attempts=3))
    answer = await adapters.call(adapters.register(spec))
    assert answer.output.content == "well"
    assert answer.attempts == 2
    assert answer.usage.quantities[0].amount == "2"


async def test_an_effectful_tool_is_never_tried_again(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    spec = http_spec(
        f"{web.url}/flaky",
        limits=tool_limits(attempts=3),
        side_effect=tool_pb2.SIDE_EFFECT_EFFECTFUL,
    )
    answer = await adapters.call(adapters.register(spec))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE
    assert web.requests["/flaky"] == 1


async def test_a_result_that_breaks_its_promise_is_malformed(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    promise = {"type": "object", "required": ["temperature"]}
    spec = http_spec(f"{web.url}/echo/x", result_json_schema=json.dumps(promise))
    answer = await adapters.call(adapters.register(spec))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_MALFORMED_OUTPUT
    assert "temperature" in answer.failure.message


async def test_what_the_adapters_measured_reaches_the_registry(
    adapters: AdaptersUnderTest,
) -> None:
    name = adapters.register(calculator_spec())
    await adapters.call(name, {"expression": "1 + 1"})
    await adapters.call(name, {"expression": "1 / 0"})
    while (facts := (await adapters.registry.facts_of(name))[0]).sample_count < 2:
        await adapters.call(name, {})
    assert facts.success_rate == 0.5
    assert sum(facts.latencies.counts.values()) == 2


async def test_a_kind_that_starts_episodes_is_a_failure_with_its_reason(
    adapters: AdaptersUnderTest,
) -> None:
    connection = tool_pb2.Connection(podium=tool_pb2.PodiumConnection(model="orchestrator"))
    spec = tool_spec("nested", "PODIUM", ANY_OBJECT, connection=connection)
    answer = await adapters.call(adapters.register(spec))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE
    assert "only an episode can call it" in answer.failure.message
    assert not answer.failure.retryable
    assert not answer.usage.quantities


async def test_no_more_calls_are_in_flight_than_the_tool_allows(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    spec = http_spec(f"{web.url}/slow/0.05", limits=tool_limits(concurrency=3))
    name = adapters.register(spec)
    answers = await asyncio.gather(*(adapters.call(name) for _ in range(12)))
    assert all(answer.HasField("output") for answer in answers)
    assert web.in_flight_max <= 3


async def test_the_circuit_breaker_opens_for_a_tool_that_keeps_failing(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    name = adapters.register(http_spec(f"{web.url}/reset"))
    for _ in range(FAILURES_TO_OPEN):
        await adapters.call(name)
    answer = await adapters.call(name)
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE
    assert answer.failure.retry_after.ToNanoseconds() > 0
    assert answer.attempts == 0
    assert web.requests["/reset"] == FAILURES_TO_OPEN


async def test_a_cancelled_rpc_cancels_the_call(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    name = adapters.register(http_spec(f"{web.url}/slow/3600"))
    running = asyncio.create_task(adapters.call(name))
    await web.until("in_flight", 1)
    running.cancel()
    await web.until("cancelled", 1)


KINDS = ("http", "mcp", "llm", "grpc")
UNKNOWN_HOST = "nobody.invalid"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("host", ["127.0.0.1", UNKNOWN_HOST])
async def test_without_a_connection_nothing_was_used(
    adapters: AdaptersUnderTest, kind: str, host: str
) -> None:
    spec = connecting_specs(f"{host}:{free_port()}")[kind]
    answer = await adapters.call(adapters.register(spec), task="Hello?")
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE
    assert host in answer.failure.message
    assert (answer.unsent, list(answer.usage.quantities), answer.attempts) == (True, [], 1)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_address_that_is_not_public_is_never_sent_anything(
    adapters: AdaptersUnderTest, web: WebServer, kind: str
) -> None:
    port = int(web.url.rpartition(":")[2])
    tool = adapters.register(connecting_specs(f"127.0.0.1:{port}")[kind], shared=False)
    answer = await adapters.call(tool, task="Hello?")
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_PERMISSION_DENIED
    assert "not public" in answer.failure.message
    assert (answer.unsent, list(answer.usage.quantities)) == (True, [])
    assert not web.seen


@pytest.mark.parametrize("kind", ["http", "mcp"])
async def test_an_owner_may_charge_for_it(adapters: AdaptersUnderTest, kind: str) -> None:
    spec = connecting_specs(f"127.0.0.1:{free_port()}")[kind]
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
