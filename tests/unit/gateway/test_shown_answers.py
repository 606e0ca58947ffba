from collections.abc import AsyncIterator
from typing import Any

import pytest

from callers import channel_to
from gateway.chat.runs import EpisodeRun
from gateway.chat.streaming import ShownAnswer
from gateway.clients import EpisodesClient
from gateway.episode_ids import EpisodeId
from gateway.errors import AnswerMadeAgain
from gateway.models import AnswerPart, Outcome, StopReason
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1 import episode_service_pb2_grpc as rpc
from podium_kit.rpc.errors import Unavailable

Part = tuple[int, int, str]


@pytest.mark.parametrize(
    ("parts", "shown"),
    [
        ([(0, "two"), (3, " moons")], ["two", " moons"]),
        # Another attempt repeats what was shown, and continues it.
        ([(0, "two"), (0, "tw"), (2, "o m"), (5, "oons")], ["two", "", " m", "oons"]),
        ([(0, "two"), (0, "two moons")], ["two", " moons"]),
        # A lost part, until an attempt begins anew.
        ([(0, "two"), (4, "moons"), (9, "!"), (0, "two moons")], ["two", "", "", " moons"]),
        # Another answer.
        ([(0, "two"), (0, "three"), (5, " moons")], ["two", "", ""]),
        ([(3, " moons")], [""]),
    ],
)
def test_what_is_shown_is_one_attempts_text_or_nothing(
    parts: list[tuple[int, str]], shown: list[str]
) -> None:
    answer = ShownAnswer()
    assert [answer.add(*part) for part in parts] == shown


class WrittenEpisode(rpc.EpisodeServiceServicer):
    """Shows parts, breaks the first watch off after them, and ends when it is watched again."""

    def __init__(self, parts: list[Part], answer: str, stop_reason: str) -> None:
        self.parts = parts
        self.asked: list[pb.WatchEpisodeRequest] = []
        reason = episode_pb2.StopReason.Value(f"STOP_REASON_{stop_reason}")
        episode = episode_pb2.Episode(answer=answer, stop_reason=reason, turn_count=1)
        self.ended = episode_pb2.EpisodeFinished(episode=episode)

    async def WatchEpisode(
        self, request: pb.WatchEpisodeRequest, context: Any
    ) -> AsyncIterator[pb.WatchEpisodeResponse]:
        self.asked.append(request)
        if len(self.asked) == 1:
            yield pb.WatchEpisodeResponse(event=episode_pb2.EpisodeEvent(sequence=1))
        for turn, start, text in self.parts:
            part = pb.EpisodeAnswerPart(turn=turn, start=start, text=text)
            yield pb.WatchEpisodeResponse(answer_part=part)
        if len(self.asked) == 1:
            raise Unavailable("this replica is going away")
        ended = episode_pb2.EpisodeEvent(sequence=3, turn=1, finished=self.ended)
        yield pb.WatchEpisodeResponse(event=ended)


async def followed(
    parts: list[Part],
    answer: str,
    stop_reason: str = "ANSWERED",
    answered_turn: int = 0,
    *,
    parts_bind: bool = True,
) -> tuple[str, Outcome]:
    """The text of the parts that a run shows, and its outcome."""
    written = WrittenEpisode(parts, answer, stop_reason)  # type: ignore[abstract]
    async with channel_to(rpc.add_EpisodeServiceServicer_to_server, written) as channel:
        episode = EpisodeId("0190", chosen_by_caller=True)
        run = EpisodeRun(EpisodesClient(channel), episode, 60, answered_turn)
        events = [event async for event in run.events(with_parts=True, parts_bind=parts_bind)]
    assert [(each.after_sequence, each.answer_parts) for each in written.asked] == [
        (0, True),
        (1, True),
    ]
    *_, outcome = events
    assert isinstance(outcome, Outcome)
    return "".join(event.text for event in events if isinstance(event, AnswerPart)), outcome


async def test_a_watch_that_is_renewed_shows_no_part_twice() -> None:
    shown, outcome = await followed([(1, 0, "two"), (1, 3, " moons")], "two moons of Mars")
    assert (shown, outcome.answer) == ("two moons", "two moons of Mars")


async def test_an_answer_that_does_not_begin_with_what_was_shown_is_an_error() -> None:
    with pytest.raises(AnswerMadeAgain, match="the whole answer is at /v1/episodes/0190"):
        await followed([(1, 0, "two")], "2 moons")


async def test_an_answer_of_its_own_follows_parts_that_do_not_bind() -> None:
    shown, outcome = await followed([(1, 0, "two")], "2 moons", parts_bind=False)
    assert (shown, outcome.answer) == ("two", "2 moons")


async def test_a_limit_leaves_what_was_shown() -> None:
    shown, outcome = await followed([(1, 0, "two")], "", "OUTPUT_LIMIT")
    assert shown == outcome.answer == "two"


async def test_an_episode_that_fails_says_why() -> None:
    _, outcome = await followed([(1, 0, "two")], "", "FAILED")
    assert outcome.stop_reason is StopReason.FAILED


async def test_a_turn_before_the_clients_results_is_not_shown_again() -> None:
    shown, outcome = await followed([(1, 0, "two")], "four", answered_turn=1)
    assert (shown, outcome.answer) == ("", "four")
