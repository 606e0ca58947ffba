import json
from typing import Any

import pytest

from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import EpisodesPlatform, finished, start
from integration.episodes.test_approvals import asked, decide
from integration.episodes.test_outcomes import check
from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.registry.v1 import toolset_pb2
from tool_registry.toolsets.convert import FIND_TOOLS_DEFINITION

ANSWER = call("answer", json.dumps({"model": "answer-1"}))
SAID = 'answer says {"model": "answer-1"}'


def with_answer(*names: str) -> toolset_pb2.Toolset:
    toolset = make_toolset("answer", *names)
    toolset.tools[0].gives_answer = True
    return toolset


@pytest.fixture(autouse=True)
def offered(platform: EpisodesPlatform) -> None:
    platform.neighbours.registry.toolset = with_answer("calculator")


async def ended(
    platform: EpisodesPlatform, **spec: Any
) -> tuple[episode_pb2.Episode, trajectory_pb2.Trajectory]:
    async with platform.client() as client:
        episode = await finished(client, (await start(client, **spec)).id)
        reply = await client.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode.id))
    return episode, reply.trajectory


async def test_what_it_gives_is_the_answer(platform: EpisodesPlatform) -> None:
    neighbours = platform.neighbours
    neighbours.orchestrator.decide = in_turns(calls(call("calculator")), calls(ANSWER))
    episode, trajectory = await ended(platform)
    assert episode.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    assert (episode.answer, trajectory.answer, episode.turn_count) == (SAID, SAID, 2)
    first, _ = neighbours.orchestrator.requests
    assert [tool.gives_answer for tool in first.tools] == [True, False]
    assert neighbours.ledger.captured.keys() == neighbours.ledger.holds.keys()


async def test_the_calls_beside_it_are_made(platform: EpisodesPlatform) -> None:
    both = calls(call("calculator"), call("answer", "{}", index=1), call("answer", "[]", index=2))
    platform.neighbours.orchestrator.decide = in_turns(both)
    episode, _ = await ended(platform)
    assert (episode.answer, episode.tool_call_count) == ("answer says {}", 3)


async def test_it_may_be_called_in_the_last_turn(platform: EpisodesPlatform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(ANSWER))
    episode, _ = await ended(platform, turn_limit=1)
    assert (episode.stop_reason, episode.answer) == (episode_pb2.STOP_REASON_ANSWERED, SAID)


async def test_its_answer_is_judged(platform: EpisodesPlatform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(ANSWER))
    platform.neighbours.adapters.content = lambda _: "42"
    _, trajectory = await ended(platform, check=check("exact", expected="42"))
    [outcome] = trajectory.outcomes
    assert (outcome.score, trajectory.answer) == (1.0, "42")


@pytest.mark.parametrize("content", ["Lyon", '{"town": "Lyon"}', "[" * 100_000])
async def test_what_does_not_fit_the_schema_is_a_result(
    platform: EpisodesPlatform, content: str
) -> None:
    schema = {"type": "object", "required": ["city"]}
    neighbours = platform.neighbours
    neighbours.adapters.content = lambda _: content
    neighbours.orchestrator.decide = in_turns(calls(ANSWER), answer('{"city": "Lyon"}'))
    episode, _ = await ended(platform, answer_json_schema=json.dumps(schema))
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
    platform: EpisodesPlatform, reason: str, words: str
) -> None:
    """Public report 17."""
    neighbours = platform.neighbours
    neighbours.adapters.finish_reason = reason
    neighbours.orchestrator.decide = in_turns(calls(ANSWER), answer("42"))
    episode, trajectory = await ended(platform)
    assert (episode.answer, episode.turn_count) == ("42", 2)
    [seen] = neighbours.orchestrator.requests[1].turns
    content = seen.observations[0].content
    assert content.startswith(SAID) and words in content
    [invocation] = [made for turn in trajectory.turns for made in turn.tool_invocations]
    assert invocation.cut_reason == reason


async def test_nothing_is_no_answer(platform: EpisodesPlatform) -> None:
    platform.neighbours.adapters.content = lambda _: " \n"
    platform.neighbours.orchestrator.decide = in_turns(calls(ANSWER), answer("42"))
    episode, _ = await ended(platform)
    assert (episode.answer, episode.turn_count) == ("42", 2)


async def test_one_that_was_found_ends_it_as_well(platform: EpisodesPlatform) -> None:
    neighbours = platform.neighbours
    neighbours.registry.toolset = make_toolset("calculator")
    neighbours.registry.toolset.tools.append(FIND_TOOLS_DEFINITION)
    neighbours.registry.found = with_answer()
    find = call("find_tools", json.dumps({"query": "who answers?"}))
    neighbours.orchestrator.decide = in_turns(calls(find), calls(ANSWER))
    episode, trajectory = await ended(platform)
    assert (episode.answer, trajectory.answer) == (SAID, SAID)


async def test_a_call_that_failed_does_not_end_it(platform: EpisodesPlatform) -> None:
    neighbours = platform.neighbours
    neighbours.registry.toolset.tools[0].needs_approval = True
    neighbours.orchestrator.decide = in_turns(calls(ANSWER), answer("42"))
    async with platform.client() as client:
        episode = await asked(client)
        await decide(client, episode.id, approved=False)
        assert (await finished(client, episode.id)).answer == "42"
