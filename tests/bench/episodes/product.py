import asyncio
import sys
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import aiohttp
import uuid_utils
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from bench.episodes.model_server import MODEL
from bench.episodes.processor import processor_seconds
from bench.figures import Load, say
from episodes.workflows.connection import connect_temporal
from episodes.workflows.settings import TemporalSettings
from local_platforms import quiet
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceStub
from podium_cli.up.running import fill
from podium_kit.embedded.ports import accepts_connections, free_port
from podium_kit.embedded.process import ManagedProcess
from podium_kit.rpc.channel import open_channel
from podium_kit.rpc.identity import Identity, Scope
from podium_operations.local.engines import EngineChoice
from podium_operations.local.platform import LocalPlatform, PlatformOptions
from podium_operations.local.services import ServiceProcess
from workflows.running_workflows import make_current

if TYPE_CHECKING:
    # Only the stubs know the asynchronous face of a stub.
    from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceAsyncStub
from podium_kit.rpc.tokens import TokenSigner

DEPLOYMENT = ("episodes", "bench")
ANSWERED = episode_pb2.STOP_REASON_ANSWERED


@dataclass(frozen=True)
class Size:
    history: int
    stored: int


class Product:
    def __init__(
        self, platform: LocalPlatform, client: "EpisodeServiceAsyncStub", model_origin: str
    ) -> None:
        self.platform = platform
        self._client = client
        self._model_origin = model_origin

    async def start(self) -> str:
        episode_id = str(uuid.UUID(int=uuid_utils.uuid7().int))
        spec = episode_pb2.EpisodeSpec(
            task="what is 6 x 7?", tool_names=["calculator"], turn_limit=200
        )
        await self._client.StartEpisode(pb.StartEpisodeRequest(episode_id=episode_id, spec=spec))
        return episode_id

    async def cancel(self, episode_id: str) -> None:
        await self._client.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode_id))

    async def turns(self, episode_id: str) -> AsyncGenerator[int, None]:
        async for response in self._client.WatchEpisode(
            pb.WatchEpisodeRequest(episode_id=episode_id)
        ):
            if response.event.HasField("action_decided"):
                yield response.event.turn

    async def model_calls(self) -> int:
        async with (
            aiohttp.ClientSession(self._model_origin) as session,
            session.get("/in-flight") as reply,
        ):
            return int(await reply.text())

    async def run(self) -> tuple[float, episode_pb2.Episode]:
        """Seconds one episode takes, from the start call to the end event."""
        started = time.perf_counter()
        episode_id = await self.start()
        wanted = pb.WatchEpisodeRequest(episode_id=episode_id, end_only=True)
        async for response in self._client.WatchEpisode(wanted):
            if response.event.HasField("finished"):
                return time.perf_counter() - started, response.event.finished.episode
        raise RuntimeError(f"the watch of {episode_id} ended before the episode")

    async def tool_seconds(self, episode_id: str) -> float:
        reply = await self._client.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode_id))
        calls = [call for turn in reply.trajectory.turns for call in turn.tool_invocations]
        return sum(call.latency.ToNanoseconds() for call in calls) / 1e9

    def processor_seconds(self) -> float:
        pids = [process.pid for process in self.platform.processes.values()]
        return processor_seconds(pid for pid in pids if pid)

    async def loads(
        self, concurrencies: Mapping[int, int]
    ) -> tuple[dict[int, Load], dict[int, float]]:
        """Loads and processor milliseconds of an episode, by concurrency."""
        await self.run()
        loads, processor_ms = {}, {}
        for concurrent, total in concurrencies.items():
            before = self.processor_seconds()
            loads[concurrent] = await self.load(concurrent, total)
            spent = self.processor_seconds() - before
            processor_ms[concurrent] = round(1000 * spent / total, 1)
        return loads, processor_ms

    async def load(self, concurrent: int, total: int) -> Load:
        seconds: list[float] = []
        failed = 0
        gate = asyncio.Semaphore(concurrent)

        async def one() -> None:
            nonlocal failed
            async with gate:
                took, episode = await self.run()
            seconds.append(took)
            failed += episode.stop_reason != ANSWERED

        started = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(total)))
        return Load.of(concurrent, seconds, time.perf_counter() - started, failed)

    async def size(self, episode_id: str) -> Size:
        """Bytes in the workflow's history, which few episodes have, and in the step log."""
        handle = (await self.temporal()).get_workflow_handle(f"episode/{episode_id}")
        try:
            described = (await handle.describe()).raw_description
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            history = 0
        else:
            history = described.workflow_execution_info.history_size_bytes
        return Size(history, await self._stored_bytes(episode_id))

    async def temporal(self) -> Client:
        around = self.platform.around
        if around is None:
            raise RuntimeError("the platform is not up")
        settings = TemporalSettings(**around.temporal)
        return await connect_temporal(around.target("temporal"), "default", settings)

    async def _stored_bytes(self, episode_id: str) -> int:
        if self.platform.postgres is None:
            raise RuntimeError("the platform is not up")
        engine = create_async_engine(self.platform.postgres.dsn("episodes"))
        query = text(
            "SELECT sum(length(body)) FROM segments WHERE digest IN"
            " (SELECT digest FROM steps WHERE episode_id = CAST(:id AS uuid))"
        )
        try:
            async with engine.connect() as connection:
                return int((await connection.execute(query, {"id": episode_id})).scalar_one())
        finally:
            await engine.dispose()


class VersionedPlatform(LocalPlatform):
    """The platform with a versioned worker, as the chart's production profile runs it."""

    def process_of(self, service: ServiceProcess) -> ManagedProcess:
        if service.name == "episodes_worker":
            name, build = DEPLOYMENT
            version = {"TEMPORAL_DEPLOYMENT_NAME": name, "TEMPORAL_WORKER_BUILD_ID": build}
            service = replace(service, environment=service.environment | version)
        return super().process_of(service)


@asynccontextmanager
async def running_product(
    delay_s: float, turns: int, thought_bytes: int = 0, *, versioned: bool = False
) -> AsyncIterator[Product]:
    """The platform up on a fresh state folder, telemetry off, as the floor has none."""
    with TemporaryDirectory(prefix="podium-bench-") as folder:
        async with model_server(Path(folder), delay_s, turns, thought_bytes) as origin:
            engine = EngineChoice(openai_base_url=f"{origin}/v1", model=MODEL)
            options = PlatformOptions(Path(folder) / "state", engine, telemetry=False)
            platform = (VersionedPlatform if versioned else LocalPlatform)(options, quiet)
            say("  starting the platform")
            await platform.start()
            try:
                await fill(platform, quiet)
                async with open_channel(*_episodes(platform)) as channel:
                    product = Product(platform, EpisodeServiceStub(channel), origin)
                    if versioned:
                        await make_current(await product.temporal(), *DEPLOYMENT)
                    yield product
            finally:
                await platform.stop()


def _episodes(platform: LocalPlatform) -> tuple[str, TokenSigner, Identity]:
    key = (platform.state.keys / "gateway.pem").read_text()
    identity = Identity("default", "bench", frozenset({Scope.TENANT_ADMIN}))
    return f"127.0.0.1:{platform.ports['episodes']}", TokenSigner(key, "gateway"), identity


@asynccontextmanager
async def model_server(
    folder: Path, delay_s: float, turns: int, thought_bytes: int = 0
) -> AsyncIterator[str]:
    port = free_port()
    process = ManagedProcess(
        "model server",
        [
            *(sys.executable, "-m", "bench.episodes.model_server", "--port", str(port)),
            *("--delay-s", str(delay_s), "--turns", str(turns)),
            *("--thought-bytes", str(thought_bytes)),
        ],
        log_path=folder / "model-server.log",
    )
    process.start()

    async def answers() -> bool:
        return accepts_connections(port)

    await process.wait_ready(answers, 30)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await process.terminate()
