"""Answers that watchers are shown while the orchestrator writes them, and those they are not."""

import asyncio
from typing import TYPE_CHECKING, Any

import grpc

from integration.episodes.neighbours import answer, call, calls, in_turns
from integration.episodes.platform_under_test import Platform, events, finished, start
from integration.episodes.test_access import caller
from integration.episodes.test_guardrails import MAIL, reading_answers
from integration.episodes.test_limits import CUT
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium_kit.rpc.identity import Role

if TYPE_CHECKING:
    from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceAsyncStub

PARTS = ["Ouaga", "dou", "gou, \U0001f600 of ", "Burkina Faso. " * 500]
ANSWER = "".join(PARTS)


def watched(client: "EpisodeServiceAsyncStub", episode_id: str) -> Any:
    return client.WatchEpisode(pb.WatchEpisodeRequest(episode_id=episode_id, answer_parts=True))


async def shown_of(watch: Any, text: str) -> list[pb.EpisodeAnswerPart]:
    """The parts of a watch until they are the text."""
    parts: list[pb.EpisodeAnswerPart] = []
    async for response in watch:
        if response.HasField("answer_part"):
            assert response.answer_part.start == sum(len(part.text) for part in parts)
            parts.append(response.answer_part)
            if "".join(part.text for part in parts) == text:
                return parts
    raise AssertionError("the watch ended before the text was shown")


def writes(platform: Platform, *parts: str, ends: str | None = None) -> None:
    """The orchestrator writes these parts, and is done once `may_answer` is set."""
    orchestrator = platform.neighbours.orchestrator
    orchestrator.answer_parts = list(parts)
    orchestrator.may_answer.clear()
    orchestrator.decide = in_turns(answer("".join(parts) if ends is None else ends))


async def test_parts_are_shown_while_the_answer_is_written(platform: Platform) -> None:
    writes(platform, *PARTS)
    episode = await start(platform.ada, stream_answer=True)
    watch = watched(platform.ada, episode.id)
    parts = await shown_of(watch, ANSWER)
    assert {part.turn for part in parts} == {1}
    # A watch that comes late is shown the beginning, too.
    [whole] = await shown_of(watched(platform.ada, episode.id), ANSWER)
    assert whole.start == 0
    platform.neighbours.orchestrator.may_answer.set()
    rest = [response.event async for response in watch]
    assert rest[-1].finished.episode.answer == ANSWER
    reply = await platform.ada.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode.id))
    assert reply.trajectory.turns[0].model_call.answer_shown


async def test_watchers_who_may_not_read_or_do_not_ask_are_shown_none(platform: Platform) -> None:
    writes(platform, "two")
    async with (
        caller(platform, "ada", Role.TOOL_OWNER) as ada,
        caller(platform, "eve", Role.TOOL_OWNER) as eve,
    ):
        episode = await start(ada, stream_answer=True)
        withheld = watched(eve, episode.id)
        first = [await anext(aiter(withheld))]
        asks_not = asyncio.create_task(events(ada, episode.id))
        await shown_of(watched(ada, episode.id), "two")
        platform.neighbours.orchestrator.may_answer.set()
        everything = first + await _all(withheld)
        assert [event.sequence for event in await asks_not] == [1, 2, 3]
    assert [response.event.content_withheld for response in everything] == [True] * 3
    assert "two" not in str(everything)


async def _all(watch: Any) -> list[pb.WatchEpisodeResponse]:
    return [response async for response in watch]


async def test_what_nobody_asks_for_is_not_streamed(platform: Platform) -> None:
    platform.neighbours.orchestrator.answer_parts = ["another text"]
    platform.neighbours.orchestrator.decide = in_turns(answer("42"))
    episode = await start(platform.ada)
    responses = await _all(watched(platform.ada, episode.id))
    assert not any(response.HasField("answer_part") for response in responses)


async def test_an_answer_that_a_guardrail_reads_is_not_shown_before(platform: Platform) -> None:
    neighbours = platform.neighbours
    neighbours.registry.toolset = reading_answers("calculator")
    neighbours.adapters.read_answer = lambda text: text.replace("ada@example.com", "[redacted]")
    neighbours.orchestrator.answer_parts = [MAIL]
    neighbours.orchestrator.decide = in_turns(answer(MAIL))
    episode = await start(platform.ada, stream_answer=True)
    responses = await _all(watched(platform.ada, episode.id))
    assert not any(response.HasField("answer_part") for response in responses)
    assert responses[-1].event.finished.episode.answer == "it is [redacted]"


async def test_a_turn_that_calls_is_followed_by_the_parts_of_the_next(platform: Platform) -> None:
    orchestrator = platform.neighbours.orchestrator
    orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    episode = await start(platform.ada, stream_answer=True)
    assert (await finished(platform.ada, episode.id)).answer == "42"


async def test_a_cut_answer_that_was_shown_ends_the_episode(platform: Platform) -> None:
    writes(platform, "two th")
    orchestrator = platform.neighbours.orchestrator
    orchestrator.finish_reason, orchestrator.decide = "length", in_turns(CUT, answer("2,000"))
    episode = await start(platform.ada, stream_answer=True)
    watch = watched(platform.ada, episode.id)
    await shown_of(watch, "two th")
    orchestrator.may_answer.set()
    ended = [response.event async for response in watch][-1].finished.episode
    assert ended.stop_reason == episode_pb2.STOP_REASON_OUTPUT_LIMIT
    assert (ended.turn_count, ended.answer) == (1, "")


async def test_a_turn_that_fails_in_the_middle_shows_its_next_attempt_anew(
    platform: Platform,
) -> None:
    orchestrator = platform.neighbours.orchestrator
    orchestrator.error = grpc.StatusCode.UNAVAILABLE, "the engine is restarting"
    orchestrator.answer_parts = ["two"]
    orchestrator.may_answer.clear()
    orchestrator.decide = in_turns(answer("two moons"))
    episode = await start(platform.ada, stream_answer=True)
    watch = watched(platform.ada, episode.id)
    async for response in watch:
        if response.answer_part.text == "two":
            break
    orchestrator.answer_parts = ["two ", "moons"]
    orchestrator.may_answer.set()
    shown = ""
    while shown != "two moons":
        part = (await anext(aiter(watch))).answer_part
        shown = shown[: part.start] + part.text
    orchestrator.error = None
    assert (await finished(platform.ada, episode.id)).answer == "two moons"
