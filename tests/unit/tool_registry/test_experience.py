import asyncio
from collections.abc import Mapping
from typing import Any

import grpc

from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1 import episode_service_pb2_grpc as rpc
from podium_kit.rpc.errors import NotFound, PermissionDenied
from podium_kit.rpc.status import status_of
from tool_registry.history.clients import EpisodeHistory
from tool_registry.ranking.experience import Answered, Experience

FIRST = {"e1": Answered("What is 2 + 2?", frozenset({"calculator"}))}
SECOND = {"e2": Answered("Who is Ada?", frozenset({"search"}))}


class Episodes:
    def __init__(self, *answers: Mapping[str, Answered] | Exception) -> None:
        self._answers = list(answers)
        self.known: list[Mapping[str, Answered]] = []

    async def answered(self, known: Mapping[str, Answered]) -> dict[str, Answered]:
        self.known.append(known)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)


async def read(experience: Experience, tenant: str = "acme") -> list[Answered]:
    experience.of(tenant)
    for _ in range(10):
        await asyncio.sleep(0)
    return list(experience._tenants[tenant].episodes.values())


async def test_nobody_waits_and_what_was_read_is_kept_until_it_is_old() -> None:
    episodes = Episodes(FIRST)
    experience = Experience(episodes, lifetime_s=3600)
    assert experience.of("acme") == ()
    assert await read(experience) == [*FIRST.values()]
    assert await read(experience) == [*FIRST.values()]
    assert len(episodes.known) == 1


async def test_a_tenant_has_its_own() -> None:
    experience = Experience(Episodes(FIRST, SECOND), lifetime_s=3600)
    assert await read(experience, "acme") == [*FIRST.values()]
    assert await read(experience, "bolt") == [*SECOND.values()]


async def test_the_next_reading_knows_the_last_and_an_episode_that_is_gone_is_forgotten() -> None:
    episodes = Episodes(FIRST, SECOND)
    experience = Experience(episodes, lifetime_s=0)
    await read(experience)
    assert await read(experience) == [*SECOND.values()]
    assert episodes.known == [{}, FIRST]


async def test_what_cannot_be_read_leaves_what_was_known() -> None:
    experience = Experience(Episodes(FIRST, PermissionDenied("not yours")), lifetime_s=0)
    await read(experience)
    assert await read(experience) == [*FIRST.values()]


class Forgetful(rpc.EpisodeServiceServicer):
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
