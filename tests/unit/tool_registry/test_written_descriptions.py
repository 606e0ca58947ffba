"""What became of the episode that wrote a description."""

from typing import Any

import grpc

from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1 import episode_service_pb2_grpc as rpc
from podium_kit.rpc.errors import NotFound
from podium_kit.rpc.status import status_of
from tool_registry.history.clients import EpisodeHistory


class Forgetful(rpc.EpisodeServiceServicer):
    """The retention of every episode has ended."""

    async def GetTrajectory(
        self, request: pb.GetTrajectoryRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.GetTrajectoryResponse:
        code, message, trailers = status_of(NotFound(f"there is no episode {request.episode_id}"))
        await context.abort(code, message, trailers)
        raise AssertionError


async def test_an_episode_that_was_forgotten_wrote_nothing() -> None:
    server = grpc.aio.server()
    rpc.add_EpisodeServiceServicer_to_server(Forgetful(), server)  # type: ignore[abstract]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        # Else the list of all proposals would be an error for ever.
        assert await EpisodeHistory(channel).written("e", "writer") == ""
    await server.stop(None)
