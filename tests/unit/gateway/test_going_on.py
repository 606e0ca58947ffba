"""What continues from an episode before."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from gateway.clients import EpisodesClient
from gateway.errors import ResponseStillRuns
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1 import episode_service_pb2_grpc as rpc

PREVIOUS = "previous_response_id"


class Standing(rpc.EpisodeServiceServicer):
    """An episode in a state."""

    def __init__(self, state: str) -> None:
        number = episode_pb2.EpisodeState.Value(f"EPISODE_STATE_{state}")
        ended = state == "FINISHED"
        self.episode = episode_pb2.Episode(id="0190", state=number, answer="42" if ended else "")
        self.episode.spec.task = "6*7?"

    async def GetEpisode(self, request: pb.GetEpisodeRequest, context: Any) -> Any:
        return pb.GetEpisodeResponse(episode=self.episode)


@asynccontextmanager
async def client_of(state: str) -> AsyncIterator[EpisodesClient]:
    server = grpc.aio.server()
    rpc.add_EpisodeServiceServicer_to_server(Standing(state), server)  # type: ignore[abstract]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield EpisodesClient(channel)
    await server.stop(None)


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
async def test_nothing_goes_on_from_an_answer_that_is_not_there_yet(state: str) -> None:
    async with client_of(state) as client:
        with pytest.raises(ResponseStillRuns, match="still runs; wait"):
            await client.said("0190", PREVIOUS)


@pytest.mark.parametrize(("state", "said"), [("FINISHED", ["6*7?", "42"]), ("WAITING", ["6*7?"])])
async def test_what_was_said_is_there_once_it_has_ended_or_waits(
    state: str, said: list[str]
) -> None:
    async with client_of(state) as client:
        found = await client.said("0190", PREVIOUS)
    assert [message.content for message in found.messages] == said
