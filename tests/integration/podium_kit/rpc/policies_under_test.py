"""A real server of PolicyService and EpisodeService whose answers a test writes."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from callers import (
    KeyPair,
    client_channel,
    make_identity,
    make_key_pair,
    write_verify_keys,
)
from podium.episodes.v1 import episode_service_pb2 as episode_pb
from podium.episodes.v1 import episode_service_pb2_grpc as episode_rpc
from podium.registry.v1 import policy_pb2
from podium.registry.v1 import policy_service_pb2 as pb
from podium.registry.v1 import policy_service_pb2_grpc as rpc
from podium_kit.embedded.ports import free_port
from podium_kit.rpc.background import BackgroundTask
from podium_kit.rpc.health import Check
from podium_kit.rpc.identity import Identity
from podium_kit.rpc.server import Service, running_server
from podium_kit.rpc.settings import ServerSettings

if TYPE_CHECKING:
    # Only the stubs know the asynchronous face of a stub.
    from podium.registry.v1.policy_service_pb2_grpc import PolicyServiceAsyncStub

Context = grpc.aio.ServicerContext[Any, Any]
Answer = Callable[[pb.GetPolicyRequest], Awaitable[pb.GetPolicyResponse]]
POLICY_SERVICE = "podium.registry.v1.PolicyService"
EPISODE_SERVICE = "podium.episodes.v1.EpisodeService"


def policy_named(name: str) -> pb.GetPolicyResponse:
    return pb.GetPolicyResponse(policy=policy_pb2.Policy(spec=policy_pb2.PolicySpec(name=name)))


class Policies(rpc.PolicyServiceServicer):
    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def GetPolicy(self, request: pb.GetPolicyRequest, context: Context) -> Any:
        return await self._answer(request)


def policy_service(answer: Answer) -> Service:
    # The stubs call a servicer abstract until it has every RPC; gRPC itself answers
    # UNIMPLEMENTED for the others.
    policies = Policies(answer)  # type: ignore[abstract]
    return Service(rpc.add_PolicyServiceServicer_to_server, policies, POLICY_SERVICE)


class Episodes(episode_rpc.EpisodeServiceServicer):
    """WatchEpisode never ends; `open_watches` counts who is watching."""

    def __init__(self) -> None:
        self.open_watches = 0

    async def WatchEpisode(
        self, request: episode_pb.WatchEpisodeRequest, context: Context
    ) -> AsyncIterator[episode_pb.WatchEpisodeResponse]:
        self.open_watches += 1
        try:
            while True:
                yield episode_pb.WatchEpisodeResponse()
        finally:
            self.open_watches -= 1


@dataclass
class PoliciesUnderTest:
    folder: Path
    keys: KeyPair = field(default_factory=make_key_pair)
    episodes: Episodes = field(default_factory=Episodes)
    port: int = field(default_factory=free_port)

    @asynccontextmanager
    async def serving(
        self,
        answer: Answer,
        checks: Mapping[str, Check] | None = None,
        tasks: Sequence[BackgroundTask] = (),
        **settings: Any,
    ) -> AsyncIterator["PolicyServiceAsyncStub"]:
        """The server, on one port whenever it runs; yields a client of an admin."""
        services = [
            policy_service(answer),
            Service(
                episode_rpc.add_EpisodeServiceServicer_to_server, self.episodes, EPISODE_SERVICE
            ),
        ]
        keys = write_verify_keys(self.folder / "keys.json", [self.keys])
        values = {"port": self.port, "verify_keys_file": keys, "drain_grace_s": 0.1, **settings}
        async with (
            running_server(ServerSettings(**values), services, checks or {}, tasks),
            self.client() as policies,
        ):
            yield policies

    @asynccontextmanager
    async def client(
        self, identity: Identity | None = None
    ) -> AsyncIterator["PolicyServiceAsyncStub"]:
        async with client_channel(self.port, identity or make_identity(), self.keys) as channel:
            yield rpc.PolicyServiceStub(channel)

    def plain_channel(self) -> grpc.aio.Channel:
        """A channel of someone who is not part of Podium."""
        return grpc.aio.insecure_channel(f"127.0.0.1:{self.port}")
