import asyncio
import json
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from callers import code_of
from integration.episodes.neighbours import (
    answer,
    call,
    calls,
    in_turns,
    make_toolset,
    orchestrator_tool,
)
from integration.episodes.platform_under_test import (
    Outage,
    Platform,
    finished,
    new_id,
    start,
)
from integration.episodes.test_access import asked, decide
from integration.episodes.test_feedback import check
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium_kit.rpc.errors import FailedPrecondition, Unavailable
from podium_kit.wire import digest_of
from tool_registry.toolsets.convert import FIND_TOOLS_DEFINITION

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


@pytest.fixture
def offering(platform: Platform) -> Platform:
    platform.neighbours.registry.toolset = offered()
    return platform


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


async def requested(
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


async def test_the_caller_runs_its_functions_and_the_episode_goes_on(offering: Platform) -> None:
    neighbours = offering.neighbours
    neighbours.orchestrator.decide = in_turns(
        calls(OSLO, LYON, call("calculator", index=2)), calls(OSLO), answer("warm")
    )
    episode = await start(offering.ada, client_tools=[WEATHER])
    assert await requested(offering.ada, episode.id) == [OSLO, LYON]
    waiting = await offering.ada.GetEpisode(pb.GetEpisodeRequest(episode_id=episode.id))
    assert waiting.episode.state == episode_pb2.EPISODE_STATE_WAITING
    first = results(_1="hot", _0="cold")
    await reply(offering.ada, episode.id, **first)
    await requested(offering.ada, episode.id, turn=2)
    # A retry of the first, while the second waits.
    await reply(offering.ada, episode.id, **first)
    failed = pb.ClientResult(error="the station is closed")
    await reply(offering.ada, episode.id, turn=2, results=[failed])
    found = await trajectory(offering.ada, episode.id)
    assert found.answer == "warm"
    contents = [each.observation.content for each in found.turns[0].tool_invocations]
    assert contents == ["cold", "hot", "calculator says {}"]
    closed = found.turns[1].tool_invocations[0]
    assert closed.observation.failure.kind == failure_pb2.FAILURE_KIND_TOOL_ERROR
    assert closed.observation.failure.message == "the station is closed"
    assert closed.latency.ToNanoseconds() > 0
    assert found.unpriced_call_count == 0
    # Three calls of the model and one of the offering's tool; the caller's cost nothing here.
    assert len(neighbours.ledger.captured) == 4
    assert neighbours.adapters.invoked.total() == 1
    assert list(neighbours.registry.asked[0].client_tools) == [WEATHER]


async def test_a_result_that_is_the_answer_ends_the_episode(offering: Platform) -> None:
    offering.neighbours.orchestrator.decide = in_turns(calls(OSLO), answer("never decided"))
    episode = await start(
        offering.ada, client_tools=[WEATHER], check=check("contains", expected="cold")
    )
    await requested(offering.ada, episode.id)
    void = pb.ClientResult(gives_answer=True, error="closed")
    unfit = reply(offering.ada, episode.id, turn=1, results=[void])
    assert await code_of(unfit) is grpc.StatusCode.INVALID_ARGUMENT
    cold = pb.ClientResult(content="It is cold", gives_answer=True)
    await reply(offering.ada, episode.id, turn=1, results=[cold])
    found = await trajectory(offering.ada, episode.id)
    assert (found.answer, found.stop_reason) == ("It is cold", episode_pb2.STOP_REASON_ANSWERED)
    assert len(found.turns) == 1 and found.outcomes[0].score == 1
    await reply(offering.ada, episode.id, turn=1, results=[cold])


async def test_an_episode_may_have_the_functions_of_its_caller_alone(offering: Platform) -> None:
    offering.neighbours.orchestrator.decide = in_turns(answer("42"))
    for names, expected in ((["getWeather"], ["getWeather"]), ([], ["calculator", "getWeather"])):
        episode = await start(offering.ada, client_tools=[WEATHER], tool_names=names)
        await finished(offering.ada, episode.id)
        shown = offering.neighbours.orchestrator.requests[-1].tools
        assert [tool.name for tool in shown] == expected
    assert not any(request.tool_names for request in offering.neighbours.registry.asked)


async def test_arguments_that_do_not_fit_are_for_the_model_and_not_for_the_caller(
    offering: Platform,
) -> None:
    wrong = calls(call("getWeather", "{}"), call("getWeather", "{", index=1))
    offering.neighbours.orchestrator.decide = in_turns(wrong, answer("42"))
    episode = await start(offering.ada, client_tools=[WEATHER])
    found = await trajectory(offering.ada, episode.id)
    for made in found.turns[0].tool_invocations:
        failure = made.observation.failure
        assert failure.kind == failure_pb2.FAILURE_KIND_INVALID_ARGUMENTS
        assert "the arguments do not fit getWeather: " in failure.message


async def test_results_that_answer_nothing_are_rejected(offering: Platform) -> None:
    offering.neighbours.orchestrator.decide = in_turns(calls(OSLO, LYON), answer("42"))
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
    episode = await start(offering.ada, client_tools=[WEATHER])
    await requested(offering.ada, episode.id)
    for answered, code, said in cases:
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await reply(offering.ada, episode.id, **answered)
        assert rejected.value.code() is code
        assert said in (rejected.value.details() or "")
    await reply(offering.ada, episode.id, **results(_0="cold", _1="hot"))
    assert (
        await code_of(reply(offering.ada, episode.id, **results(_0="mild", _1="hot")))
        is grpc.StatusCode.ALREADY_EXISTS
    )
    await finished(offering.ada, episode.id)
    # The same again, after the end.
    await reply(offering.ada, episode.id, **results(_0="cold", _1="hot"))


async def test_an_episode_that_nobody_answers_ends_at_its_deadline(offering: Platform) -> None:
    offering.neighbours.orchestrator.decide = in_turns(calls(OSLO), answer("42"))
    episode = await start(offering.ada, client_tools=[WEATHER], time_limit={"seconds": 2})
    ended = await finished(offering.ada, episode.id)
    assert ended.stop_reason == episode_pb2.STOP_REASON_DEADLINE
    assert (
        await code_of(reply(offering.ada, episode.id, **results(_0="cold")))
        is grpc.StatusCode.FAILED_PRECONDITION
    )


async def test_a_waiting_episode_is_cancelled(offering: Platform) -> None:
    offering.neighbours.orchestrator.decide = in_turns(calls(OSLO), answer("42"))
    episode = await start(offering.ada, client_tools=[WEATHER])
    await requested(offering.ada, episode.id)
    await offering.ada.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id))
    ended = await finished(offering.ada, episode.id)
    assert ended.stop_reason == episode_pb2.STOP_REASON_CANCELLED


async def test_another_tenant_answers_nothing(offering: Platform) -> None:
    offering.neighbours.orchestrator.decide = in_turns(calls(OSLO), answer("42"))
    async with offering.client() as client, offering.client(tenant="other") as other:
        episode = await start(client, client_tools=[WEATHER])
        await requested(client, episode.id)
        for episode_id in (episode.id, new_id()):
            assert (
                await code_of(reply(other, episode_id, **results(_0="cold")))
                is grpc.StatusCode.NOT_FOUND
            )
        await reply(client, episode.id, **results(_0="cold"))
        assert (await finished(client, episode.id)).answer == "42"


async def test_a_worker_that_dies_while_the_caller_works_loses_nothing(
    own_platform: Platform,
) -> None:
    own_platform.neighbours.orchestrator.decide = in_turns(calls(OSLO), answer("42"))
    own_platform.neighbours.registry.toolset = offered()
    async with own_platform.client() as client:
        episode = await start(client, client_tools=[WEATHER])
        await requested(client, episode.id)
        await own_platform.worker.kill()
        await reply(client, episode.id, **results(_0="cold"))
        own_platform.worker.start()
        found = await trajectory(client, episode.id)
    assert found.turns[0].tool_invocations[0].observation.content == "cold"
    assert found.answer == "42"


async def test_a_first_tool_is_called_before_all_else_and_the_answer_has_its_schema(
    offering: Platform,
) -> None:
    orchestrator = offering.neighbours.orchestrator
    malformed = failure_pb2.Failure(
        kind=failure_pb2.FAILURE_KIND_MALFORMED_ACTION, message="no action"
    )
    orchestrator.decide = in_turns(
        orchestrator_pb.Action(malformed=malformed), calls(OSLO), answer("{}")
    )
    episode = await start(
        offering.ada,
        client_tools=[WEATHER],
        first_tool_names=["getWeather"],
        answer_json_schema='{"type": "object"}',
    )
    await requested(offering.ada, episode.id, turn=2)
    await reply(offering.ada, episode.id, **results(turn=2, _0="cold"))
    await finished(offering.ada, episode.id)
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
            await start(offering.ada, **spec)
    assert [list(each.must_call) for each in orchestrator.requests] == [
        ["getWeather"],
        ["getWeather"],
        [],
    ]
    assert {each.answer_json_schema for each in orchestrator.requests} == {'{"type": "object"}'}


ANSWER = call("answer", json.dumps({"model": "answer-1"}))
SAID = 'answer says {"model": "answer-1"}'


def with_answer(*names: str) -> toolset_pb2.Toolset:
    toolset = make_toolset("answer", *names)
    toolset.tools[0].gives_answer = True
    return toolset


@pytest.fixture
def answering(platform: Platform) -> Platform:
    platform.neighbours.registry.toolset = with_answer("calculator")
    return platform


async def ended(
    platform: Platform, **spec: Any
) -> tuple[episode_pb2.Episode, trajectory_pb2.Trajectory]:
    episode = await platform.run(**spec)
    trajectory = await platform.trajectory(episode.id)
    return episode, trajectory


async def test_what_it_gives_is_the_answer(answering: Platform) -> None:
    neighbours = answering.neighbours
    neighbours.orchestrator.decide = in_turns(calls(call("calculator")), calls(ANSWER))
    episode, trajectory = await ended(answering)
    assert episode.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    assert (episode.answer, trajectory.answer, episode.turn_count) == (SAID, SAID, 2)
    first, _ = neighbours.orchestrator.requests
    assert [tool.gives_answer for tool in first.tools] == [True, False]
    assert neighbours.ledger.captured.keys() == neighbours.ledger.holds.keys()


async def test_the_calls_beside_it_are_made(answering: Platform) -> None:
    both = calls(call("calculator"), call("answer", "{}", index=1), call("answer", "[]", index=2))
    answering.neighbours.orchestrator.decide = in_turns(both)
    episode, _ = await ended(answering)
    assert (episode.answer, episode.tool_call_count) == ("answer says {}", 3)


async def test_it_may_be_called_in_the_last_turn(answering: Platform) -> None:
    answering.neighbours.orchestrator.decide = in_turns(calls(ANSWER))
    episode, _ = await ended(answering, turn_limit=1)
    assert (episode.stop_reason, episode.answer) == (episode_pb2.STOP_REASON_ANSWERED, SAID)


async def test_its_answer_is_judged(answering: Platform) -> None:
    answering.neighbours.orchestrator.decide = in_turns(calls(ANSWER))
    answering.neighbours.adapters.content = lambda _: "42"
    _, trajectory = await ended(answering, check=check("exact", expected="42"))
    [outcome] = trajectory.outcomes
    assert (outcome.score, trajectory.answer) == (1.0, "42")


@pytest.mark.parametrize("content", ["Lyon", '{"town": "Lyon"}', "[" * 100_000])
async def test_what_does_not_fit_the_schema_is_a_result(answering: Platform, content: str) -> None:
    schema = {"type": "object", "required": ["city"]}
    neighbours = answering.neighbours
    neighbours.adapters.content = lambda _: content
    neighbours.orchestrator.decide = in_turns(calls(ANSWER), answer('{"city": "Lyon"}'))
    episode, _ = await ended(answering, answer_json_schema=json.dumps(schema))
    assert (episode.answer, episode.turn_count) == ('{"city": "Lyon"}', 2)
    [seen] = neighbours.orchestrator.requests[1].turns
    assert seen.observations[0].content == content


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("length", "no whole answer"),
        ("content_filter", "filter"),
        ("refusal", "declined"),
    ],
)
async def test_a_text_that_was_cut_or_declined_is_a_result_that_says_so(
    answering: Platform, reason: str, words: str
) -> None:
    """Public report 17."""
    neighbours = answering.neighbours
    neighbours.adapters.finish_reason = reason
    neighbours.orchestrator.decide = in_turns(calls(ANSWER), answer("42"))
    episode, trajectory = await ended(answering)
    assert (episode.answer, episode.turn_count) == ("42", 2)
    [seen] = neighbours.orchestrator.requests[1].turns
    content = seen.observations[0].content
    assert content.startswith(SAID) and words in content
    [invocation] = [made for turn in trajectory.turns for made in turn.tool_invocations]
    assert invocation.cut_reason == reason


async def test_nothing_is_no_answer(answering: Platform) -> None:
    answering.neighbours.adapters.content = lambda _: " \n"
    answering.neighbours.orchestrator.decide = in_turns(calls(ANSWER), answer("42"))
    episode, _ = await ended(answering)
    assert (episode.answer, episode.turn_count) == ("42", 2)


async def test_one_that_was_found_ends_it_as_well(answering: Platform) -> None:
    neighbours = answering.neighbours
    neighbours.registry.toolset = make_toolset("calculator")
    neighbours.registry.toolset.tools.append(FIND_TOOLS_DEFINITION)
    neighbours.registry.found = with_answer()
    find = call("find_tools", json.dumps({"query": "who answers?"}))
    neighbours.orchestrator.decide = in_turns(calls(find), calls(ANSWER))
    episode, trajectory = await ended(answering)
    assert (episode.answer, trajectory.answer) == (SAID, SAID)


async def test_a_call_that_failed_does_not_end_it(answering: Platform) -> None:
    neighbours = answering.neighbours
    neighbours.registry.toolset.tools[0].needs_approval = True
    neighbours.orchestrator.decide = in_turns(calls(ANSWER), answer("42"))
    episode = await asked(answering.ada)
    await decide(answering.ada, episode.id, approved=False)
    assert (await finished(answering.ada, episode.id)).answer == "42"


FIND = call("find_tools", json.dumps({"query": "look words up"}))
RESOLVE = "ToolRegistryService/ResolveToolset"
AWAY = Unavailable("connection refused", retry_after_s=0.01)


@pytest.fixture
def finding(platform: Platform) -> Platform:
    registry = platform.neighbours.registry
    registry.toolset = make_toolset("calculator")
    registry.toolset.tools.append(FIND_TOOLS_DEFINITION)
    registry.found = make_toolset("search")
    return platform


def names(tools: object) -> list[str]:
    return [tool.name for tool in tools]  # type: ignore[attr-defined]


async def test_what_was_found_is_no_part_of_the_frozen_toolset(finding: Platform) -> None:
    neighbours = finding.neighbours
    neighbours.orchestrator.decide = in_turns(calls(FIND), answer("42"))
    recorded = await finding.recorded()
    listed = await finding.ada.ListEpisodes(pb.ListEpisodesRequest())
    assert names(recorded.tools) == ["calculator", "find_tools", "search"]
    digest = digest_of(neighbours.registry.toolset)
    assert recorded.toolset_digest == digest
    assert [each.toolset_digest for each in listed.episodes] == [digest]


async def test_a_tool_that_is_found_is_listed_called_and_recorded(finding: Platform) -> None:
    neighbours = finding.neighbours
    neighbours.orchestrator.decide = in_turns(calls(FIND), calls(call("search")), answer("42"))
    factors = {"tool/search": "2"}
    found = await finding.recorded(task="what does candid mean?", price_factors=factors)
    listed = [names(request.tools) for request in neighbours.orchestrator.requests]
    known = ["calculator", "find_tools"]
    assert listed == [known, [*known, "search"], [*known, "search"]]
    looked, used = found.turns[0].tool_invocations[0], found.turns[1].tool_invocations[0]
    assert looked.observation.content == "You may call these now:\nsearch: does search"
    assert names(looked.found_tools) == ["search"] and not looked.HasField("usage")
    assert used.observation.content == "search says {}"
    assert names(found.tools) == list(found.tool_names) == [*known, "search"]
    assert list(found.features.tool_call_counts) == [0, 1, 1]
    assert found.unpriced_call_count == 0
    # The model's three calls and the tool's one; looking is free.
    assert len(neighbours.ledger.captured) == 4
    first, second = neighbours.registry.asked
    assert (first.task, first.tools_max) == ("what does candid mean?", 8)
    assert (second.task, list(second.known_tool_names)) == ("look words up", known)
    assert second.price_factors == first.price_factors == factors


async def test_what_was_said_before_counts_and_named_tools_are_not_ranked(
    finding: Platform,
) -> None:
    message = orchestrator_pb.ConversationMessage(role="user", content="weather in Oslo?")
    await finding.recorded(task="and in Lyon?", history=[message])
    await finding.recorded(tool_names=["calculator"])
    ranked, named = finding.neighbours.registry.asked
    assert ranked.task == "weather in Oslo?\nand in Lyon?"
    assert (named.task, named.tools_max) == ("", 0)


async def test_wrong_arguments_are_a_failure_that_the_model_sees(finding: Platform) -> None:
    wrong = calls(call("find_tools", "{}"), call("find_tools", "{", index=1))
    finding.neighbours.orchestrator.decide = in_turns(wrong, answer("42"))
    found = await finding.recorded()
    for looked in found.turns[0].tool_invocations:
        failure = looked.observation.failure
        assert failure.kind == failure_pb2.FAILURE_KIND_INVALID_ARGUMENTS
        assert "find_tools: " in failure.message


async def test_where_nothing_else_fits_it_says_so(finding: Platform) -> None:
    finding.neighbours.registry.found = make_toolset()
    # Episodes that others call are part of a budget that was shared at the start.
    finding.neighbours.registry.found.tools.append(orchestrator_tool())
    finding.neighbours.orchestrator.decide = in_turns(calls(FIND), answer("42"))
    found = await finding.recorded()
    [looked] = found.turns[0].tool_invocations
    assert looked.observation.content == "There is no other tool for that."
    assert names(found.tools) == ["calculator", "find_tools"]


async def test_a_registry_that_is_away_is_waited_for(finding: Platform) -> None:
    outages: list[Outage] = []

    def decide(request: orchestrator_pb.NextActionRequest) -> orchestrator_pb.Action:
        if request.turns:
            return answer("42")
        outages.append(finding.tenants.fail(finding.tenant, RESOLVE, error=AWAY))
        return calls(FIND)

    finding.neighbours.orchestrator.decide = decide
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        running = group.create_task(finding.recorded())
        while not outages or outages[0].calls < 3:
            await asyncio.sleep(0.01)
        outages[0].end()
    found = running.result()
    assert found.answer == "42"
    assert names(found.turns[0].tool_invocations[0].found_tools) == ["search"]


async def test_a_registry_that_rejects_the_search_is_a_failure_that_the_model_sees(
    finding: Platform,
) -> None:
    outages: list[Outage] = []

    def decide(request: orchestrator_pb.NextActionRequest) -> orchestrator_pb.Action:
        if request.turns:
            return answer("42")
        error = FailedPrecondition("the list of tools is being moved")
        outages.append(finding.tenants.fail(finding.tenant, RESOLVE, error=error))
        return calls(FIND)

    finding.neighbours.orchestrator.decide = decide
    found = await finding.recorded()
    [looked] = found.turns[0].tool_invocations
    assert (found.answer, found.unpriced_call_count) == ("42", 0)
    assert "being moved" in looked.observation.failure.message
    # Looking is free: no money was held for it that could be given back.
    assert not finding.neighbours.ledger.released
