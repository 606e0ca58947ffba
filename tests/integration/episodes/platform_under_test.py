import os
import sys
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import uuid_utils
from grpc_health.v1 import health_pb2, health_pb2_grpc
from pydantic_settings import BaseSettings

from callers import (
    KeyPair,
    client_channel,
    make_identity,
    make_key_pair,
    write_verify_keys,
)
from episodes.config import ServerConfig, WorkerConfig
from integration.episodes.tenants import Neighbours, TenantNeighbours
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceStub
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.process import ManagedProcess
from podium_kit.embedded.temporal import EmbeddedTemporal

if TYPE_CHECKING:
    # Only the stubs know the asynchronous face of a stub.
    from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceAsyncStub


UPSTREAM_TARGETS = (
    "orchestrator_inference_target",
    "tool_adapters_target",
    "cost_ledger_target",
    "tool_registry_target",
)
# Temporal's worker controller sets these, without our prefix.
VERSION_VARIABLES = {
    "deployment_name": "TEMPORAL_DEPLOYMENT_NAME",
    "build_id": "TEMPORAL_WORKER_BUILD_ID",
}


@dataclass
class EpisodesPlatform:
    tenants: TenantNeighbours
    neighbours: Neighbours
    server: ManagedProcess
    worker: ManagedProcess
    port: int
    keys: KeyPair
    kafka: EmbeddedKafka
    topic: str
    database_url: str
    worker_health_port: int
    settings: Mapping[str, Mapping[str, str]]
    """By the module that is run."""
    tenant: str = "acme"

    def for_new_tenant(self) -> "EpisodesPlatform":
        tenant = f"tenant-{uuid.uuid4().hex[:12]}"
        return replace(self, tenant=tenant, neighbours=self.tenants.add(tenant))

    @asynccontextmanager
    async def client(
        self, tenant: str = "", subject: str = "ada", groups: Iterable[str] = ()
    ) -> AsyncIterator["EpisodeServiceAsyncStub"]:
        identity = make_identity(tenant or self.tenant, subject, groups=groups)
        async with client_channel(self.port, identity, self.keys) as channel:
            yield EpisodeServiceStub(channel)

    async def end_episodes(self, tenant: str = "") -> None:
        running = episode_pb2.EPISODE_STATE_RUNNING
        async with self.client(tenant) as client:
            left = await client.ListEpisodes(
                pb.ListEpisodesRequest(page_size=500, states=[running])
            )
            for episode in left.episodes:
                await client.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id))
                await finished(client, episode.id)

    async def ready(self) -> None:
        await self.server.wait_ready(lambda: serving(self.port), 30)


def new_id() -> str:
    return str(uuid.UUID(int=uuid_utils.uuid7().int))


async def start(
    client: "EpisodeServiceAsyncStub", task: str = "what is 6 x 7?", **spec: Any
) -> episode_pb2.Episode:
    request = pb.StartEpisodeRequest(
        episode_id=new_id(), spec=episode_pb2.EpisodeSpec(task=task, **spec)
    )
    return (await client.StartEpisode(request)).episode


async def finished(client: "EpisodeServiceAsyncStub", episode_id: str) -> episode_pb2.Episode:
    async for response in client.WatchEpisode(pb.WatchEpisodeRequest(episode_id=episode_id)):
        if response.event.HasField("finished"):
            return response.event.finished.episode
    raise AssertionError("the watch ended before the episode")


async def events(
    client: "EpisodeServiceAsyncStub", episode_id: str
) -> list[episode_pb2.EpisodeEvent]:
    watch = client.WatchEpisode(pb.WatchEpisodeRequest(episode_id=episode_id))
    return [response.event async for response in watch]


@asynccontextmanager
async def run_platform(
    database_url: str,
    temporal: EmbeddedTemporal,
    kafka: EmbeddedKafka,
    folder: Path,
    settings: Mapping[str, str] | None = None,
    *,
    started: bool = True,
) -> AsyncIterator[EpisodesPlatform]:
    keys, port, health_port = make_key_pair(), free_port(), free_port()
    neighbours = Neighbours()
    tenants = TenantNeighbours(neighbours)
    verify = write_verify_keys(folder / "verify.json", [keys])
    (folder / "worker.pem").write_text(keys.private_pem)
    topic = f"trajectories-{uuid.uuid4().hex[:8]}"
    await kafka.create_topics({topic: 3})
    async with tenants.serve() as upstream:
        shared = {
            "database_url": database_url,
            "temporal_target": temporal.target,
            "task_queue": f"episodes-{topic}",
            **dict.fromkeys(UPSTREAM_TARGETS, f"127.0.0.1:{upstream}"),
            **(settings or {}),
        }
        for_server, for_worker = (
            {name: shared[name] for name in shared if _known(name, kind)}
            for kind in (ServerConfig, WorkerConfig)
        )
        made = {
            "episodes": {**for_server, "port": str(port), "verify_keys_file": str(verify)},
            "episodes.worker": {
                **for_worker,
                "health_port": str(health_port),
                "kafka__bootstrap": kafka.bootstrap_servers,
                "trajectory_topic": topic,
                "reconcile_interval_s": "1",
                "signing_key__key_id": keys.key_id,
                "signing_key__private_key_file": str(folder / "worker.pem"),
            },
        }
        server, worker = (process_of(name, folder, made[name]) for name in made)
        platform = EpisodesPlatform(
            tenants=tenants,
            neighbours=neighbours,
            server=server,
            worker=worker,
            port=port,
            keys=keys,
            kafka=kafka,
            topic=topic,
            database_url=database_url,
            worker_health_port=health_port,
            settings=made,
        )
        try:
            if started:
                server.start()
                await platform.ready()
                worker.start()
            yield platform
        finally:
            await worker.terminate()
            await server.terminate()


def _known(setting: str, kind: type[BaseSettings]) -> bool:
    return setting.partition("__")[0] in kind.model_fields


def process_of(
    module: str, folder: Path, settings: Mapping[str, str], code: Sequence[str] = ()
) -> ManagedProcess:
    prefix = module.replace(".", "_")
    environment = {
        VERSION_VARIABLES.get(name, f"{prefix}_{name}".upper()): value
        for name, value in settings.items()
    }
    environment["PYTHONPATH"] = os.pathsep.join(code or sys.path)
    return ManagedProcess(
        module,
        [sys.executable, "-m", module],
        log_path=folder / f"{module}.log",
        env=environment,
    )


async def serving(port: int) -> bool:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            reply = await health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=1
            )
        except grpc.aio.AioRpcError:
            return False
        return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)
