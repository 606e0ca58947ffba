import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
import grpc
import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from callers import client_channel, code_of, make_identity
from episodes.direct_calls.executor import CALL_QUEUE
from episodes.queue.store import WorkQueue
from integration.episodes.neighbours import make_toolset
from integration.episodes.platform_under_test import Platform, new_id
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.common.v1 import failure_pb2, money_pb2, usage_pb2
from podium.episodes.v1 import direct_call_service_pb2 as pb
from podium.episodes.v1.direct_call_service_pb2_grpc import DirectCallServiceStub
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium_kit.rpc.errors import FailedPrecondition
from podium_kit.rpc.status import domain_error_from

if TYPE_CHECKING:
    from podium.episodes.v1.direct_call_service_pb2_grpc import DirectCallServiceAsyncStub

ASK = [orchestrator_pb.ConversationMessage(role="user", content="How many moons has Mars?")]


def expert() -> toolset_pb2.Toolset:
    toolset = make_toolset("expert")
    [tool] = toolset.tools
    tool.kind, tool.max_output_tokens = tool_pb2.TOOL_KIND_LLM, 1000
    tool.model_skus.update({"small": "m/small", "big": "m/big"})
    tool.model_aliases.extend(["small", "big"])
    return toolset


@asynccontextmanager
async def calls_of(platform: Platform) -> AsyncIterator["DirectCallServiceAsyncStub"]:
    platform.neighbours.registry.toolset = expert()
    identity = make_identity(platform.tenant, "ada")
    async with client_channel(platform.port, identity, platform.keys) as channel:
        yield DirectCallServiceStub(channel)


async def start(
    stub: "DirectCallServiceAsyncStub", call_id: str = "", running_limit: int = 0, **spec: Any
) -> pb.DirectCall:
    model = {} if "arguments_json" in spec else {"model_alias": "small"}
    wanted = pb.DirectCallSpec(**{"tool_name": "expert", "messages": ASK, **model, **spec})
    request = pb.StartDirectCallRequest(
        call_id=call_id or new_id(), spec=wanted, running_limit=running_limit
    )
    return (await stub.StartDirectCall(request)).call


async def rejected(
    stub: "DirectCallServiceAsyncStub", reason: str, **spec: Any
) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError, match=reason) as caught:
        await start(stub, **spec)
    return caught.value


async def ended(stub: "DirectCallServiceAsyncStub", call_id: str) -> pb.DirectCall:
    while True:
        request = pb.GetDirectCallRequest(call_id=call_id, wait=True)
        call = (await stub.GetDirectCall(request)).call
        if call.ended:
            return call


def make(
    stub: "DirectCallServiceAsyncStub", *, ends_with_caller: bool = False, **spec: Any
) -> "grpc.aio.UnaryStreamCall[pb.MakeDirectCallRequest, pb.MakeDirectCallResponse]":
    wanted = pb.DirectCallSpec(**{"tool_name": "expert", "model_alias": "small", **spec})
    wanted.messages.extend(ASK)
    start = pb.StartDirectCallRequest(call_id=new_id(), spec=wanted)
    return stub.MakeDirectCall(
        pb.MakeDirectCallRequest(start=start, ends_with_caller=ends_with_caller, with_parts=True)
    )


async def test_a_call_is_made_by_the_process_that_accepts_it(own_platform: Platform) -> None:
    neighbours = own_platform.neighbours
    neighbours.adapters.parts = ["Mars ", "has ", "two."]
    # Workers have no part in it.
    await own_platform.worker.terminate()
    async with calls_of(own_platform) as stub:
        events = [event async for event in make(stub)]
    accepted, *parts, last = events
    assert accepted.accepted.id == last.ended.id and not accepted.accepted.ended
    assert "".join(event.part.text for event in parts) == "Mars has two."
    assert last.ended.content == 'expert says {"model": "small"}'
    key = last.ended.ledger_key
    assert neighbours.ledger.captured.keys() == neighbours.ledger.holds.keys() == {key}
    assert f"{neighbours.ledger.captured[key]:f}" == last.ended.cost.amount


async def test_a_later_call_resolves_its_tool_while_the_policy_decides(platform: Platform) -> None:
    neighbours = platform.neighbours
    async with calls_of(platform) as stub:
        await ended(stub, (await start(stub)).id)
        await platform.announce_change()
        both = neighbours.registry.barrier = neighbours.policies.barrier = asyncio.Barrier(2)
        await ended(stub, (await start(stub)).id)
        await platform.announce_change()
        assert await code_of(start(stub, arguments_json="{")) is grpc.StatusCode.INVALID_ARGUMENT
    assert both.n_waiting == 0


async def test_a_changed_tool_is_called_at_once(platform: Platform) -> None:
    async with calls_of(platform) as stub:
        await ended(stub, (await start(stub)).id)
        platform.neighbours.registry.toolset.tools[0].version = 2
        await platform.announce_change()
        assert (await start(stub)).tool_version == 2


async def test_a_repeated_call_waits_for_the_end_of_the_first(platform: Platform) -> None:
    platform.neighbours.adapters.delay_s = 0.3
    async with calls_of(platform) as stub:
        started = await start(stub)
        again = pb.StartDirectCallRequest(call_id=started.id, spec=started.spec)
        request = pb.MakeDirectCallRequest(start=again)
        events = [event async for event in stub.MakeDirectCall(request)]
        after = [event async for event in stub.MakeDirectCall(request)]
    assert [event.WhichOneof("event") for event in events] == ["accepted", "ended"]
    assert events[-1].ended == after[-1].ended
    assert set(platform.neighbours.adapters.invoked.values()) == {1}


async def test_a_caller_that_is_gone_ends_its_call_and_pays_for_what_was_written(
    platform: Platform,
) -> None:
    neighbours = platform.neighbours
    neighbours.adapters.parts, neighbours.adapters.stalled = ["Mars has"], {"expert"}
    async with calls_of(platform) as stub:
        making = make(stub, ends_with_caller=True)
        events = aiter(making)
        accepted = (await anext(events)).accepted
        assert (await anext(events)).part.text == "Mars has"
        making.cancel()
        call = await ended(stub, accepted.id)
    assert call.failure.kind == failure_pb2.FAILURE_KIND_CANCELLED
    assert call.usage.source == usage_pb2.USAGE_SOURCE_ESTIMATED
    used = {each.dimension: each.amount for each in call.usage.quantities}
    assert used[usage_pb2.USAGE_DIMENSION_INPUT_FRESH] == "7"
    assert used[usage_pb2.USAGE_DIMENSION_OUTPUT_TEXT] == "2"
    assert f"{neighbours.ledger.captured[call.ledger_key]:f}" == call.cost.amount
    while neighbours.adapters.in_flight:
        await asyncio.sleep(0.01)


async def test_a_call_that_was_not_sent_when_its_caller_left_costs_nothing(
    platform: Platform,
) -> None:
    neighbours = platform.neighbours
    neighbours.adapters.is_sent, neighbours.adapters.stalled = False, {"expert"}
    async with calls_of(platform) as stub:
        making = make(stub, ends_with_caller=True)
        accepted = (await anext(aiter(making))).accepted
        while not neighbours.adapters.in_flight:
            await asyncio.sleep(0.01)
        making.cancel()
        call = await ended(stub, accepted.id)
    assert call.cost.amount == "0"
    assert neighbours.ledger.released == {call.ledger_key}


async def test_a_caller_that_may_come_back_leaves_its_call_to_its_end(platform: Platform) -> None:
    platform.neighbours.adapters.delay_s = 0.3
    async with calls_of(platform) as stub:
        making = make(stub)
        accepted = (await anext(aiter(making))).accepted
        making.cancel()
        call = await ended(stub, accepted.id)
    assert call.content == 'expert says {"model": "small"}'


async def test_a_server_that_dies_during_a_call_leaves_it_to_a_worker(
    own_platform: Platform,
) -> None:
    neighbours = own_platform.neighbours
    neighbours.adapters.stalled = {"expert"}
    async with calls_of(own_platform) as stub:
        with pytest.raises(grpc.aio.AioRpcError):
            async for event in make(stub, ends_with_caller=True):
                accepted = event.accepted
                while not neighbours.adapters.invoked:
                    await asyncio.sleep(0.05)
                neighbours.adapters.stalled = set()
                await own_platform.server.kill()
    own_platform.server.start()
    await own_platform.ready()
    async with calls_of(own_platform) as stub:
        found = await ended(stub, accepted.id)
    assert found.content == 'expert says {"model": "small"}'
    assert neighbours.ledger.captured.keys() == neighbours.ledger.holds.keys() == {found.ledger_key}


async def test_a_server_that_stops_leaves_its_calls_to_a_worker(own_platform: Platform) -> None:
    neighbours = own_platform.neighbours
    neighbours.adapters.stalled = {"expert"}
    async with calls_of(own_platform) as stub:
        with pytest.raises(grpc.aio.AioRpcError):
            async for event in make(stub, ends_with_caller=True):
                accepted = event.accepted
                while not neighbours.adapters.invoked:
                    await asyncio.sleep(0.05)
                neighbours.adapters.stalled = set()
                stopping = asyncio.create_task(own_platform.server.terminate(grace_s=60.0))
        await stopping
    own_platform.server.start()
    await own_platform.ready()
    async with calls_of(own_platform) as stub:
        found = await ended(stub, accepted.id)
    assert found.content == 'expert says {"model": "small"}'
    assert neighbours.ledger.captured.keys() == {found.ledger_key}


async def test_a_call_is_held_made_and_charged_once_however_often_it_is_asked_for(
    platform: Platform,
) -> None:
    neighbours, call_id = platform.neighbours, new_id()
    async with calls_of(platform) as stub:
        wanted: dict[str, Any] = {
            "model_alias": "big",
            "sampling": {"temperature": 0.5, "max_tokens": 200},
            "labels": {"team": "red"},
            "budget": {"currency_code": "USD", "amount": "0.5"},
        }
        await asyncio.gather(*(start(stub, call_id, **wanted) for _ in range(3)))
        call = await ended(stub, call_id)
        assert await ended(stub, (await start(stub, call_id, **wanted)).id) == call
        with pytest.raises(grpc.aio.AioRpcError) as conflict:
            await start(stub, call_id)
    assert conflict.value.code() is grpc.StatusCode.ALREADY_EXISTS
    key = f"{call_id}/0/tool/0"
    assert (call.ledger_key, call.model_alias, call.policy_name) == (key, "big", "balanced")
    assert neighbours.adapters.invoked == {key: 1}
    assert neighbours.ledger.captured.keys() == neighbours.ledger.holds.keys() == {key}
    assert f"{neighbours.ledger.captured[key]:f}" == call.cost.amount
    hold = neighbours.ledger.holds[key]
    assert (hold.subject.model, hold.subject.team, hold.sku) == ("big", "red", "m/big")
    assert (hold.subject.episode_id, hold.dispatched) == ("", True)
    # The real ledger keeps the first of them.
    budgets = {(each.id, each.hard_limit.amount) for each in neighbours.ledger.budgets}
    assert budgets == {(hold.budget_ids[0], "0.5")}
    [asked] = neighbours.adapters.requests
    assert list(asked.conversation.messages) == ASK
    assert (asked.conversation.temperature, asked.max_output_tokens) == (0.5, 200)


async def test_a_composite_tool_is_called_by_episodes_alone_and_its_model_by_anyone(
    platform: Platform,
) -> None:
    async with calls_of(platform) as stub:
        [tool] = platform.neighbours.registry.toolset.tools
        tool.executor.CopyFrom(make_toolset("run_python").tools[0])
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await start(stub, messages=[], arguments_json='{"prompt": "6*7?", "model": "small"}')
        call = await ended(stub, (await start(stub)).id)
    assert rejected.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "only an episode can call it" in str(rejected.value.details())
    assert not call.HasField("failure")
    assert len(platform.neighbours.adapters.requests) == 1


async def test_a_call_whose_tool_cannot_be_closed_costs_what_the_ledger_says(
    platform: Platform,
) -> None:
    neighbours = platform.neighbours
    away = FailedPrecondition("the adapters cannot close it")
    platform.tenants.fail(platform.tenant, "ToolAdapterService/CloseEpisode", error=away)
    async with calls_of(platform) as stub:
        neighbours.registry.toolset = make_toolset("sums")
        neighbours.registry.toolset.tools[0].kind = tool_pb2.TOOL_KIND_MCP
        started = await start(stub, tool_name="sums", messages=[], arguments_json="{}")
        call = await ended(stub, started.id)
    assert call.content == "sums says {}"
    assert call.cost.amount == f"{neighbours.ledger.captured[call.ledger_key]:f}"


async def test_any_tool_is_called_with_its_arguments(platform: Platform) -> None:
    neighbours = platform.neighbours
    async with calls_of(platform) as stub:
        neighbours.registry.toolset = make_toolset("sums")
        neighbours.registry.toolset.tools[0].kind = tool_pb2.TOOL_KIND_MCP
        given: dict[str, Any] = {
            "tool_name": "sums",
            "messages": [],
            "arguments_json": '{"model": "x"}',
        }
        call = await ended(stub, (await start(stub, **given)).id)
        neighbours.registry.toolset = expert()
        prompt = {**given, "tool_name": "expert", "model_alias": "small"}
        prompt["arguments_json"] = '{"prompt": "How many?"}'
        asked = await ended(stub, (await start(stub, **prompt)).id)
    assert (call.content, call.model_alias) == ('sums says {"model": "x"}', "")
    hold = neighbours.ledger.holds[call.ledger_key]
    worst = {each.dimension: each.amount for each in hold.worst_case}
    assert worst == {usage_pb2.USAGE_DIMENSION_CALL: "1", usage_pb2.USAGE_DIMENSION_SECOND: "30.0"}
    assert (hold.sku, hold.subject.model) == ("tool/sums", "")
    plain, told = neighbours.adapters.requests
    assert not plain.HasField("conversation")
    assert told.arguments_json == '{"model": "small"}'
    assert [each.content for each in told.conversation.messages] == ["How many?"]
    assert asked.model_alias == "small"
    # Its session; requests to models hold nothing.
    assert neighbours.adapters.closed == [call.id]


async def test_a_worker_that_dies_during_a_call_charges_it_once(own_platform: Platform) -> None:
    neighbours = own_platform.neighbours
    neighbours.adapters.delay_s = 3.0
    async with calls_of(own_platform) as stub:
        call = await start(stub)
        while not neighbours.adapters.invoked:
            await asyncio.sleep(0.05)
        await own_platform.worker.kill()
        neighbours.adapters.delay_s = 0.0
        own_platform.worker.start()
        found = await ended(stub, call.id)
    assert found.content == 'expert says {"model": "small"}'
    # The model may be asked again, as in an episode; the ledger hears of one call.
    assert neighbours.adapters.invoked.keys() == {call.ledger_key}
    assert neighbours.ledger.captured.keys() == neighbours.ledger.holds.keys() == {call.ledger_key}


async def test_a_worker_that_stops_leaves_its_calls_to_the_next(own_platform: Platform) -> None:
    neighbours = own_platform.neighbours
    neighbours.adapters.delay_s = 600.0
    async with calls_of(own_platform) as stub:
        call = await start(stub)
        while not neighbours.adapters.invoked:
            await asyncio.sleep(0.05)
        await own_platform.worker.terminate(grace_s=60.0)
        engine = create_async_engine(own_platform.database_url)
        assert await WorkQueue(engine, CALL_QUEUE).backlog_age_s() > 0
        await engine.dispose()
        neighbours.adapters.delay_s = 0.0
        own_platform.worker.start()
        found = await ended(stub, call.id)
    assert found.content == 'expert says {"model": "small"}'
    assert neighbours.ledger.captured.keys() == neighbours.ledger.holds.keys() == {call.ledger_key}


async def test_a_tenant_has_no_more_calls_in_flight_than_it_may(platform: Platform) -> None:
    platform.neighbours.adapters.delay_s = 600.0
    other = platform.for_new_tenant()
    async with calls_of(platform) as stub, calls_of(other) as others:
        first = await start(stub, running_limit=2)
        await start(stub, running_limit=2)
        budgets = len(platform.neighbours.ledger.budgets)
        with pytest.raises(grpc.aio.AioRpcError) as rejection:
            await start(
                stub, running_limit=2, budget=money_pb2.Money(currency_code="USD", amount="1")
            )
        error = domain_error_from(rejection.value)
        assert (error.reason, error.retry_after_s) == ("TOO_MANY_DIRECT_CALLS", 1)
        assert len(platform.neighbours.ledger.budgets) == budgets
        # A repeated start finds its call; another tenant has its own limit.
        assert (await start(stub, first.id, running_limit=2)).id == first.id
        await start(others, running_limit=2)
        platform.neighbours.adapters.delay_s = 0.0
        await ended(stub, (await start(stub, running_limit=3)).id)
        await ended(stub, (await start(stub, running_limit=3)).id)


@pytest.mark.parametrize(
    ("spec", "toolset"),
    [
        (pb.DirectCallSpec(tool_name="expert", arguments_json="{"), expert()),
        (pb.DirectCallSpec(tool_name="expert", messages=ASK), toolset_pb2.Toolset()),
    ],
    ids=["holding", "reading"],
)
async def test_a_fault_that_would_be_the_same_again_ends_the_call_at_once(
    platform: Platform, spec: pb.DirectCallSpec, toolset: toolset_pb2.Toolset
) -> None:
    call_id = new_id()
    database = await asyncpg.connect(platform.database_url.replace("+asyncpg", ""))
    await database.execute(
        "WITH stored AS (INSERT INTO direct_calls (id, tenant, subject, spec, toolset)"
        " VALUES ($1, $2, $3, $4, $5) RETURNING id, tenant)"
        " INSERT INTO direct_call_queue (call_id, tenant) SELECT id, tenant FROM stored",
        *(call_id, platform.tenant, "ada", spec.SerializeToString(), toolset.SerializeToString()),
    )
    stored = None
    while stored is None:
        await asyncio.sleep(0.05)
        stored = await database.fetchrow(
            "SELECT answer, cost FROM direct_calls WHERE id = $1 AND end_time IS NOT NULL", call_id
        )
    await database.close()
    failure = adapters_pb.InvokeResponse.FromString(stored["answer"]).failure
    assert failure.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE
    assert "fault of the platform" in failure.message and stored["cost"] is None
    # Once: what is the same at every attempt is not tried fifty times.
    said = platform.worker.log_path.read_text()
    assert said.count(f"direct call {call_id} is ended by a fault") == 1


async def test_what_the_budgets_do_not_cover_is_not_made(platform: Platform) -> None:
    platform.neighbours.ledger.reject_after = 0
    async with calls_of(platform) as stub:
        found = await ended(stub, (await start(stub)).id)
    assert found.failure.kind == failure_pb2.FAILURE_KIND_BUDGET_EXHAUSTED
    assert found.cost.amount == "0"
    assert not platform.neighbours.adapters.invoked


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"messages": []}, "the last message is empty"),
        ({"tool_name": ""}, "tool_name is empty"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "role is 'robot'; give system"),
        ({"options": {"function_name": "f"}}, "f is not among the functions"),
        ({"options": {"answer_json_schema": "{"}}, "the schema of the answer is not JSON"),
        (
            {"options": {"functions": [{"name": "f", "parameters_json_schema": "[]"}]}},
            "the schema of f is no JSON object",
        ),
        (
            {"messages": [], "arguments_json": '{"prompt": "x"}', "options": {"stop": ["."]}},
            "options say how to answer messages",
        ),
        ({"sampling": {"max_tokens": -1}}, "sampling.max_tokens is -1"),
        ({"budget": {"currency_code": "USD", "amount": "0"}}, "the budget must be above zero"),
        ({"arguments_json": "{}"}, "there are messages and arguments_json"),
        ({"messages": [], "arguments_json": "{"}, "arguments_json is not JSON"),
        ({"messages": [], "arguments_json": "[]"}, "is no JSON object"),
        ({"messages": [], "arguments_json": "{}"}, "the argument prompt is empty"),
        ({"messages": [], "arguments_json": '{"task": "x"}'}, "and no 'task'"),
    ],
)
async def test_what_is_no_call_is_rejected(
    platform: Platform, spec: dict[str, Any], said: str
) -> None:
    async with calls_of(platform) as stub:
        with pytest.raises(grpc.aio.AioRpcError, match=said) as rejected:
            await start(stub, **spec)
    assert rejected.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "spec",
    [
        {"model_alias": ""},
        {"messages": [], "arguments_json": '{"prompt": "x"}'},
        {"messages": [], "arguments_json": '{"prompt": "x", "model": ""}'},
        {"messages": [], "arguments_json": '{"prompt": "x", "model": ["big"]}'},
        {
            "messages": [],
            "arguments_json": '{"prompt": "x", "model": "big"}',
            "model_alias": "small",
        },
    ],
)
async def test_a_call_that_names_no_model_of_several_or_two_is_rejected(
    platform: Platform, spec: dict[str, Any]
) -> None:
    async with calls_of(platform) as stub:
        with pytest.raises(grpc.aio.AioRpcError, match="expert has the models small, big") as none:
            await start(stub, **spec)
        assert none.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    only = expert()
    del only.tools[0].model_aliases[:], only.tools[0].model_skus["small"]
    only.tools[0].model_aliases.append("big")
    # Another caller: what was resolved for the first is kept for a while.
    other = platform.for_new_tenant()
    async with calls_of(other) as stub:
        other.neighbours.registry.toolset = only
        call = await ended(stub, (await start(stub, model_alias="")).id)
    [request] = other.neighbours.adapters.requests
    assert request.model_alias == call.model_alias == "big"


async def test_only_what_can_be_called_without_an_episode_is(platform: Platform) -> None:
    toolset = make_toolset("sums")
    async with calls_of(platform) as stub:
        platform.neighbours.registry.toolset = toolset
        with pytest.raises(grpc.aio.AioRpcError, match="sums is no language model"):
            await start(stub, tool_name="sums")
        toolset.tools[0].kind = tool_pb2.TOOL_KIND_PODIUM
        await platform.announce_change()
        reason = "runs an episode of its own"
        await rejected(stub, reason, tool_name="sums", messages=[], arguments_json="{}")


async def test_policies_keep_calls_out_and_tenants_apart(platform: Platform) -> None:
    other = platform.for_new_tenant()
    async with calls_of(platform) as stub, calls_of(other) as others:
        call = await start(stub)
        for call_id in (call.id, new_id(), "0"):
            assert (
                await code_of(others.GetDirectCall(pb.GetDirectCallRequest(call_id=call_id)))
                is grpc.StatusCode.NOT_FOUND
            )
        assert await code_of(start(others, call.id)) is grpc.StatusCode.NOT_FOUND
        platform.neighbours.policies.rejected_models = {"small"}
        await platform.announce_change()
        denied = await rejected(stub, "expert is not allowed")
        assert denied.code() is grpc.StatusCode.PERMISSION_DENIED
        platform.neighbours.registry.toolset.tools[0].needs_approval = True
        await platform.announce_change()
        await rejected(stub, "wait for a person's approval", model_alias="big")
        await ended(stub, call.id)
