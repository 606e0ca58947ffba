import json
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import EpisodesPlatform, finished, new_id, start
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import tool_pb2, toolset_pb2

if TYPE_CHECKING:
    from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceAsyncStub

SCHEMA = '{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}'
# A kilobyte that asks for a grammar of gigabytes.
ANY = {"anyOf": [{}] * 50, "type": ["object", "array", "string", "number", "boolean", "null"]}
BOMB = {"type": "object", "items": {}, "properties": {"a": ANY | {"items": ANY | {"items": ANY}}}}
WEATHER = tool_pb2.ClientTool(
    name="getWeather", description="weather now", parameters_json_schema=SCHEMA
)
OSLO = call("getWeather", json.dumps({"city": "Oslo"}))
LYON = call("getWeather", json.dumps({"city": "Lyon"}), index=1)


def offered() -> toolset_pb2.Toolset:
    toolset = make_toolset("calculator")
    toolset.tools.append(
        toolset_pb2.ResolvedTool(
            name=WEATHER.name,
            version=1,
            kind=tool_pb2.TOOL_KIND_CLIENT,
            description=WEATHER.description,
            parameters_json_schema=SCHEMA,
        )
    )
    return toolset


@pytest.fixture(autouse=True)
def registry(platform: EpisodesPlatform) -> None:
    platform.neighbours.registry.toolset = offered()


def results(turn: int = 1, **contents: str) -> dict[str, Any]:
    """Results by call index, as `_0="sunny"`."""
    given = [
        pb.ClientResult(call_index=int(index[1:]), content=content)
        for index, content in contents.items()
    ]
    return {"turn": turn, "results": given}


async def reply(
    client: "EpisodeServiceAsyncStub", episode_id: str, **answered: Any
) -> episode_pb2.Episode:
    request = pb.AnswerToolCallsRequest(episode_id=episode_id, **answered)
    return (await client.AnswerToolCalls(request)).episode


async def asked(
    client: "EpisodeServiceAsyncStub", episode_id: str, turn: int = 1
) -> list[orchestrator_pb.ToolCall]:
    async for response in client.WatchEpisode(pb.WatchEpisodeRequest(episode_id=episode_id)):
        event = response.event
        if event.HasField("client_calls_requested") and event.turn == turn:
            return list(event.client_calls_requested.calls)
    raise AssertionError("the episode ended without asking")


async def trajectory(
    client: "EpisodeServiceAsyncStub", episode_id: str
) -> trajectory_pb2.Trajectory:
    await finished(client, episode_id)
    request = pb.GetTrajectoryRequest(episode_id=episode_id)
    return (await client.GetTrajectory(request)).trajectory


async def test_the_caller_runs_its_functions_and_the_episode_goes_on(
    platform: EpisodesPlatform,
) -> None:
    neighbours = platform.neighbours
    neighbours.orchestrator.decide = in_turns(
        calls(OSLO, LYON, call("calculator", index=2)), calls(OSLO), answer("warm")
    )
    async with platform.client() as client:
        episode = await start(client, client_tools=[WEATHER])
        assert await asked(client, episode.id) == [OSLO, LYON]
        waiting = await client.GetEpisode(pb.GetEpisodeRequest(episode_id=episode.id))
        assert waiting.episode.state == episode_pb2.EPISODE_STATE_WAITING
        first = results(_1="hot", _0="cold")
        await reply(client, episode.id, **first)
        await asked(client, episode.id, turn=2)
        # A retry of the first, while the second waits.
        await reply(client, episode.id, **first)
        failed = pb.ClientResult(error="the station is closed")
        await reply(client, episode.id, turn=2, results=[failed])
        found = await trajectory(client, episode.id)
    assert found.answer == "warm"
    contents = [each.observation.content for each in found.turns[0].tool_invocations]
    assert contents == ["cold", "hot", "calculator says {}"]
    closed = found.turns[1].tool_invocations[0]
    assert closed.observation.failure.kind == failure_pb2.FAILURE_KIND_TOOL_ERROR
    assert closed.observation.failure.message == "the station is closed"
    assert closed.latency.ToNanoseconds() > 0
    assert found.unpriced_call_count == 0
    # Three calls of the model and one of the platform's tool; the caller's cost nothing here.
    assert len(neighbours.ledger.captured) == 4
    assert neighbours.adapters.invoked.total() == 1
    assert list(neighbours.registry.asked[0].client_tools) == [WEATHER]


async def test_arguments_that_do_not_fit_are_for_the_model_and_not_for_the_caller(
    platform: EpisodesPlatform,
) -> None:
    wrong = calls(call("getWeather", "{}"), call("getWeather", "{", index=1))
    platform.neighbours.orchestrator.decide = in_turns(wrong, answer("42"))
    async with platform.client() as client:
        episode = await start(client, client_tools=[WEATHER])
        found = await trajectory(client, episode.id)
    for made in found.turns[0].tool_invocations:
        failure = made.observation.failure
        assert failure.kind == failure_pb2.FAILURE_KIND_INVALID_ARGUMENTS
        assert "the arguments do not fit getWeather: " in failure.message


async def test_results_that_answer_nothing_are_rejected(platform: EpisodesPlatform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(OSLO, LYON), answer("42"))
    invalid, unasked = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION
    both = pb.ClientResult(call_index=1, content="hot", error="closed")
    cold = pb.ClientResult(content="cold")
    cases = [
        (results(_0="cold"), invalid, "results lacks call 1 (getWeather)"),
        (results(_0="cold", _1="hot", _2="mild"), invalid, "answers call 2, which does not wait"),
        ({"turn": 1, "results": [cold, cold]}, invalid, "answers a call twice"),
        ({"turn": 1, "results": [cold, both]}, invalid, "call 1 has content and error"),
        (results(_0="c" * 2**20, _1="hot"), invalid, "over 1024 KiB together"),
        (results(turn=2, _0="cold"), unasked, "no calls of turn 2"),
    ]
    async with platform.client() as client:
        episode = await start(client, client_tools=[WEATHER])
        await asked(client, episode.id)
        for answered, code, said in cases:
            with pytest.raises(grpc.aio.AioRpcError) as rejected:
                await reply(client, episode.id, **answered)
            assert rejected.value.code() is code
            assert said in (rejected.value.details() or "")
        await reply(client, episode.id, **results(_0="cold", _1="hot"))
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await reply(client, episode.id, **results(_0="mild", _1="hot"))
        assert rejected.value.code() is grpc.StatusCode.ALREADY_EXISTS
        await finished(client, episode.id)
        # The same again, after the end.
        await reply(client, episode.id, **results(_0="cold", _1="hot"))


async def test_an_episode_that_nobody_answers_ends_at_its_deadline(
    platform: EpisodesPlatform,
) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(OSLO), answer("42"))
    async with platform.client() as client:
        episode = await start(client, client_tools=[WEATHER], time_limit={"seconds": 2})
        ended = await finished(client, episode.id)
        assert ended.stop_reason == episode_pb2.STOP_REASON_DEADLINE
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await reply(client, episode.id, **results(_0="cold"))
    assert rejected.value.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_a_waiting_episode_is_cancelled(platform: EpisodesPlatform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(OSLO), answer("42"))
    async with platform.client() as client:
        episode = await start(client, client_tools=[WEATHER])
        await asked(client, episode.id)
        await client.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id))
        ended = await finished(client, episode.id)
    assert ended.stop_reason == episode_pb2.STOP_REASON_CANCELLED


async def test_another_tenant_answers_nothing(platform: EpisodesPlatform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(OSLO), answer("42"))
    async with platform.client() as client, platform.client(tenant="other") as other:
        episode = await start(client, client_tools=[WEATHER])
        await asked(client, episode.id)
        for episode_id in (episode.id, new_id()):
            with pytest.raises(grpc.aio.AioRpcError) as rejected:
                await reply(other, episode_id, **results(_0="cold"))
            assert rejected.value.code() is grpc.StatusCode.NOT_FOUND
        await reply(client, episode.id, **results(_0="cold"))
        assert (await finished(client, episode.id)).answer == "42"


async def test_a_worker_that_dies_while_the_caller_works_loses_nothing(
    own_platform: EpisodesPlatform,
) -> None:
    own_platform.neighbours.orchestrator.decide = in_turns(calls(OSLO), answer("42"))
    own_platform.neighbours.registry.toolset = offered()
    async with own_platform.client() as client:
        episode = await start(client, client_tools=[WEATHER])
        await asked(client, episode.id)
        await own_platform.worker.kill()
        await reply(client, episode.id, **results(_0="cold"))
        own_platform.worker.start()
        found = await trajectory(client, episode.id)
    assert found.turns[0].tool_invocations[0].observation.content == "cold"
    assert found.answer == "42"


async def test_a_first_tool_is_called_before_all_else_and_the_answer_has_its_schema(
    platform: EpisodesPlatform,
) -> None:
    orchestrator = platform.neighbours.orchestrator
    malformed = failure_pb2.Failure(
        kind=failure_pb2.FAILURE_KIND_MALFORMED_ACTION, message="no action"
    )
    orchestrator.decide = in_turns(
        orchestrator_pb.Action(malformed=malformed), calls(OSLO), answer("{}")
    )
    async with platform.client() as client:
        episode = await start(
            client,
            client_tools=[WEATHER],
            first_tool_names=["getWeather"],
            answer_json_schema='{"type": "object"}',
        )
        await asked(client, episode.id, turn=2)
        await reply(client, episode.id, **results(turn=2, _0="cold"))
        await finished(client, episode.id)
        for spec, said in (
            ({"first_tool_names": ["teleport"]}, "first_tool_names has teleport"),
            ({"answer_json_schema": "{"}, "answer_json_schema at .*: not JSON"),
            ({"answer_json_schema": '{"type": "array"}'}, 'must have "type": "object"'),
            (
                {"answer_json_schema": '{"type": "object", "then": {"$ref": "file:///a"}}'},
                r"answer_json_schema at \$.then.\$ref: 'file:///a' is not local; inline what",
            ),
            (
                {"answer_json_schema": '{"type": 1}'},
                r"answer_json_schema at \$.type: 1 is not valid",
            ),
            ({"answer_json_schema": json.dumps(BOMB)}, "answer_json_schema at .*written out"),
        ):
            with pytest.raises(grpc.aio.AioRpcError, match=said):
                await start(client, **spec)
    assert [list(each.must_call) for each in orchestrator.requests] == [
        ["getWeather"],
        ["getWeather"],
        [],
    ]
    assert {each.answer_json_schema for each in orchestrator.requests} == {'{"type": "object"}'}
