"""A watch that is resumed."""

from typing import Any

import grpc

from gateway.clients import EpisodesClient
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
