from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from callers import channel_to
from gateway.chat.outcomes import finish_reason, stopped
from gateway.clients import EpisodesClient
from gateway.convert import event_from_proto
from gateway.errors import ResponseStillRuns
from gateway.models import Outcome, ProgressNote, StopReason
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1 import episode_service_pb2_grpc as rpc
from unit.gateway.test_outcomes import make_outcome


class EndedEpisode(rpc.EpisodeServiceServicer):
    def __init__(self) -> None:
        self.watches = 0

    async def WatchEpisode(self, request: pb.WatchEpisodeRequest, context: Any) -> Any:
        self.watches += 1
        if self.watches > 1:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "asked once more")
        for _ in ():
            yield pb.WatchEpisodeResponse()

    async def GetEpisode(self, request: pb.GetEpisodeRequest, context: Any) -> Any:
        episode = episode_pb2.Episode(state=episode_pb2.EPISODE_STATE_FINISHED)
        return pb.GetEpisodeResponse(episode=episode)


async def test_a_watch_after_the_last_event_ends() -> None:
    ended = EndedEpisode()  # type: ignore[abstract]
    async with channel_to(rpc.add_EpisodeServiceServicer_to_server, ended) as channel:
        events = [event async for event in EpisodesClient(channel).watch("0190", 5)]
    assert not events


class ToolEpisode(rpc.EpisodeServiceServicer):
    async def WatchEpisode(self, request: pb.WatchEpisodeRequest, context: Any) -> Any:
        returned = episode_pb2.EpisodeEvent(sequence=2, turn=1)
        returned.tool_returned.observation.call.tool_name = "search"
        returned.tool_returned.observation.content = "a long text"
        ended = episode_pb2.EpisodeEvent(sequence=3)
        ended.finished.episode.id = "0190"
        for event in (returned, ended):
            yield pb.WatchEpisodeResponse(event=event)


@pytest.mark.parametrize(("with_calls", "kept"), [(False, []), (True, ["a long text"])])
async def test_what_tools_gave_is_kept_for_those_who_ask(with_calls: bool, kept: list[str]) -> None:
    episode = ToolEpisode()  # type: ignore[abstract]
    async with channel_to(rpc.add_EpisodeServiceServicer_to_server, episode) as channel:
        events = EpisodesClient(channel).events("0190", with_calls=with_calls)
        last = [event async for event in events][-1]
    assert isinstance(last, Outcome)
    assert [call.content for call in last.made_calls] == kept


PREVIOUS = "previous_response_id"


class Standing(rpc.EpisodeServiceServicer):
    def __init__(self, state: str) -> None:
        number = episode_pb2.EpisodeState.Value(f"EPISODE_STATE_{state}")
        ended = state == "FINISHED"
        self.episode = episode_pb2.Episode(id="0190", state=number, answer="42" if ended else "")
        self.episode.spec.task = "6*7?"

    async def GetEpisode(self, request: pb.GetEpisodeRequest, context: Any) -> Any:
        return pb.GetEpisodeResponse(episode=self.episode)


@asynccontextmanager
async def client_of(state: str) -> AsyncIterator[EpisodesClient]:
    standing = Standing(state)  # type: ignore[abstract]
    async with channel_to(rpc.add_EpisodeServiceServicer_to_server, standing) as channel:
        yield EpisodesClient(channel)


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
async def test_nothing_goes_on_from_an_answer_that_is_not_there_yet(state: str) -> None:
    async with client_of(state) as client:
        with pytest.raises(ResponseStillRuns, match="still runs; wait"):
            await client.prior_messages("0190", PREVIOUS)


@pytest.mark.parametrize(("state", "said"), [("FINISHED", ["6*7?", "42"]), ("WAITING", ["6*7?"])])
async def test_what_was_said_is_there_once_it_has_ended_or_waits(
    state: str, said: list[str]
) -> None:
    async with client_of(state) as client:
        found = await client.prior_messages("0190", PREVIOUS)
    assert [message.content for message in found.messages] == said


def progress_line(name: str) -> str:
    event = episode_pb2.EpisodeEvent()
    getattr(event, name).SetInParent()
    progress = event_from_proto(event)
    assert isinstance(progress, ProgressNote)
    return progress.line


def test_only_the_start_speaks_of_allowed_tools() -> None:
    events = {field.name for field in episode_pb2.EpisodeEvent.DESCRIPTOR.oneofs[0].fields}
    speaking = {
        name for name in events - {"finished"} if "tools are allowed" in progress_line(name)
    }
    assert speaking == {"started"}


@pytest.mark.parametrize(
    ("stops", "answer", "found"),
    [
        ([], "one, two; three", ""),
        (["four"], "one, two; three", ""),
        ([";"], "one, two", ";"),
        ([";", ","], "one", ","),
        (["tw", "two"], "one, ", "two"),
        (["one"], "", "one"),
    ],
)
def test_the_earliest_stop_cuts(stops: list[str], answer: str, found: str) -> None:
    cut = stopped(make_outcome(StopReason.TURN_LIMIT, answer="one, two; three"), stops)
    assert (cut.answer, cut.stop_sequence) == (answer, found)
    assert finish_reason(cut) == ("stop" if found else "length")
