"""A watch that is resumed."""

from typing import Any

import grpc
import pytest

from gateway.clients import EpisodesClient
from gateway.models import Outcome
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1 import episode_service_pb2_grpc as rpc


class EndedEpisode(rpc.EpisodeServiceServicer):
    """An episode whose last event was seen; it may be asked for others once."""

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
    server = grpc.aio.server()
    rpc.add_EpisodeServiceServicer_to_server(EndedEpisode(), server)  # type: ignore[abstract]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        events = [event async for event in EpisodesClient(channel).watch("0190", 5)]
    await server.stop(None)
    assert not events


class ToolEpisode(rpc.EpisodeServiceServicer):
    """An episode that calls a tool and ends."""

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
    server = grpc.aio.server()
    rpc.add_EpisodeServiceServicer_to_server(ToolEpisode(), server)  # type: ignore[abstract]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        events = EpisodesClient(channel).events("0190", with_calls=with_calls)
        last = [event async for event in events][-1]
    await server.stop(None)
    assert isinstance(last, Outcome)
    assert [call.content for call in last.made_calls] == kept
