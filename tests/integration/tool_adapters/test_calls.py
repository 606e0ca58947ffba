import asyncio
import json
from pathlib import Path
from typing import Any

import asyncpg
import grpc
import pytest

from embedded_servers import Database
from integration.misbehaviour.database_wire import database_wire
from integration.misbehaviour.faults import Fault
from integration.tool_adapters.adapters_under_test import (
    AdaptersUnderTest,
    run_adapters,
    running_registry,
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
from podium_kit.postgres.engine import DatabaseUnavailable
from podium_kit.rpc.identity import Scope
from tool_adapters.calls import effects
from tool_adapters.calls.bulkheads import FAILURES_TO_OPEN
from tool_adapters.calls.effects import Claim
from tool_adapters.calls.store_effects import PostgresEffectStore


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


EFFECTFUL = tool_pb2.SIDE_EFFECT_EFFECTFUL


async def test_the_same_key_returns_the_first_answer(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    name = adapters.register(http_spec(f"{web.url}/echo/order", side_effect=EFFECTFUL))
    first = await adapters.call(name, {"item": "tea"}, key="e/1/tool/0")
    second = await adapters.call(name, {"item": "tea"}, key="e/1/tool/0")
    assert second == first
    assert web.requests["/echo/order"] == 1


async def test_the_same_key_with_other_content_is_rejected(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    name = adapters.register(http_spec(f"{web.url}/echo/order", side_effect=EFFECTFUL))
    await adapters.call(name, {"item": "tea"}, key="e/1/tool/0")
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await adapters.call(name, {"item": "milk"}, key="e/1/tool/0")
    assert error.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert web.requests["/echo/order"] == 1


async def test_two_tenants_may_use_the_same_key(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    name = adapters.register(http_spec(f"{web.url}/echo/order", side_effect=EFFECTFUL))
    await adapters.call(name, {"item": "tea"}, key="e/1/tool/0")
    request = pb.InvokeRequest(
        key="e/1/tool/0",
        episode_id="e",
        tool_name=name,
        tool_version=1,
        arguments_json=json.dumps({"item": "milk"}),
    )
    async with adapters.as_caller(tenant="other") as other:
        assert (await other.Invoke(request)).HasField("output")
    assert web.requests["/echo/order"] == 2


async def test_a_repetition_waits_for_the_call_that_runs(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    name = adapters.register(http_spec(f"{web.url}/slow/0.3", side_effect=EFFECTFUL))
    answers = await asyncio.gather(*(adapters.call(name, key="e/1/tool/0") for _ in range(5)))
    assert all(answer == answers[0] for answer in answers)
    assert answers[0].output.content == "at last"
    assert web.requests["/slow"] == 1


async def test_the_effect_of_a_cancelled_call_is_unknown(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    spec = http_spec(f"{web.url}/slow/3600", side_effect=EFFECTFUL, limits=tool_limits(5))
    name = adapters.register(spec)
    running = asyncio.create_task(adapters.call(name, key="e/1/tool/0"))
    await web.until("in_flight", 1)
    running.cancel()
    await web.until("cancelled", 1)
    answer = await adapters.call(name, key="e/1/tool/0")
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_CANCELLED
    assert "nobody knows whether it took effect" in answer.failure.message
    assert web.requests["/slow"] == 1


async def test_a_call_that_cannot_be_claimed_is_not_made_and_may_be_tried_again(
    database: Database, tmp_path: Path, web: WebServer
) -> None:
    async with (
        database_wire(await database("tool_adapters")) as wire,
        running_registry() as registry,
        run_adapters(wire.database_url, tmp_path, registry) as adapters,
    ):
        name = adapters.register(http_spec(f"{web.url}/echo/order", side_effect=EFFECTFUL))
        wire.fault = Fault.RESET
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await adapters.call(name, key="e/1/tool/0")
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE
        assert web.requests["/echo/order"] == 0
        wire.fault = None
        assert (await adapters.call(name, key="e/1/tool/0")).HasField("output")
    assert web.requests["/echo/order"] == 1


@pytest.mark.parametrize("caller_leaves", [False, True])
async def test_a_claim_whose_reply_was_lost_does_not_outlast_its_request(
    caller_leaves: bool,
    adapters: AdaptersUnderTest,
    web: WebServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    claim, stored = PostgresEffectStore.claim, asyncio.Event()

    async def claimed(store: PostgresEffectStore, *values: Any) -> Claim:
        made, is_first = await claim(store, *values), not stored.is_set()
        stored.set()
        if is_first and caller_leaves:
            await asyncio.Event().wait()
        if is_first:
            raise DatabaseUnavailable
        return made

    monkeypatch.setattr(PostgresEffectStore, "claim", claimed)
    name = adapters.register(http_spec(f"{web.url}/echo/order", side_effect=EFFECTFUL))
    running = asyncio.create_task(adapters.call(name, key="e/1/tool/0"))
    await stored.wait()
    if caller_leaves:
        running.cancel()
    await asyncio.wait({running})
    assert (await adapters.call(name, key="e/1/tool/0")).HasField("output")
    assert web.requests["/echo/order"] == 1


@pytest.mark.parametrize("caller_leaves", [False, True])
async def test_an_answer_that_the_database_did_not_take_is_stored_when_it_is_back(
    caller_leaves: bool,
    database: Database,
    tmp_path: Path,
    web: WebServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store_answer, failed = PostgresEffectStore.answer, asyncio.Event()
    async with (
        database_wire(await database("tool_adapters")) as wire,
        running_registry() as registry,
        run_adapters(wire.database_url, tmp_path, registry) as adapters,
    ):

        async def answer(store: PostgresEffectStore, *answer: Any) -> None:
            if not failed.is_set():
                wire.fault = Fault.RESET
            try:
                await store_answer(store, *answer)
            except DatabaseUnavailable:
                failed.set()
                raise

        monkeypatch.setattr(PostgresEffectStore, "answer", answer)
        name = adapters.register(http_spec(f"{web.url}/echo/order", side_effect=EFFECTFUL))
        running = asyncio.create_task(adapters.call(name, key="e/1/tool/0"))
        await failed.wait()
        if caller_leaves:
            running.cancel()
            await asyncio.wait({running})
        wire.fault = None
        again = await adapters.call(name, key="e/1/tool/0")
        assert again.HasField("output")
        assert caller_leaves or await running == again
    assert web.requests["/echo/order"] == 1


async def test_a_call_whose_process_has_ended_is_not_waited_for(
    database: Database, tmp_path: Path, web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effects, "LEFT_AFTER_S", 0.5)
    claim, waited = PostgresEffectStore.claim, asyncio.Event()

    async def claimed(store: PostgresEffectStore, *values: Any) -> Claim:
        found = await claim(store, *values)
        if found.answer is None and not found.is_new:
            waited.set()
        return found

    monkeypatch.setattr(PostgresEffectStore, "claim", claimed)
    url = await database("tool_adapters")
    rows = await asyncpg.connect(url.replace("+asyncpg", ""))
    limits = tool_limits(3600)
    async with running_registry() as registry, run_adapters(url, tmp_path, registry) as adapters:
        spec = http_spec(f"{web.url}/echo/order", side_effect=EFFECTFUL, limits=limits)
        name = adapters.register(spec)
        first = await adapters.call(name, key="e/1/tool/0")
        stored = await rows.fetchval("SELECT answer FROM effects")
        await rows.execute("UPDATE effects SET answer = NULL")
        again = asyncio.create_task(adapters.call(name, key="e/1/tool/0"))
        # Its process lives: it is waited for.
        await waited.wait()
        await rows.execute("UPDATE effects SET answer = $1", stored)
        assert await again == first
        await rows.execute("UPDATE effects SET answer = NULL, holder = 'ended'")
        answer = await adapters.call(name, key="e/1/tool/0")
    await rows.close()
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_CANCELLED
    assert web.requests["/echo/order"] == 1


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
