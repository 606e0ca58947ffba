import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import grpc
import jwt
import uuid_utils
from grpc_health.v1 import health_pb2, health_pb2_grpc
from kafka import KafkaConsumer, TopicPartition
from pydantic_settings import BaseSettings

from callers import (
    KeyPair,
    client_channel,
    make_identity,
    make_key_pair,
    write_verify_keys,
)
from episodes.config import ServerConfig, WorkerConfig
from integration.episodes.neighbours import (
    FixedPolicies,
    FixedRegistry,
    ScriptedAdapters,
    ScriptedOrchestrator,
    SimpleLedger,
)
from podium.adapters.v1 import tool_adapter_service_pb2_grpc as adapters_rpc
from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceStub
from podium.ledger.v1 import budget_service_pb2_grpc as budget_rpc
from podium.ledger.v1 import cost_ledger_service_pb2_grpc as ledger_rpc
from podium.ledger.v1 import price_book_service_pb2_grpc as prices_rpc
from podium.orchestrator.v1 import orchestrator_service_pb2_grpc as orchestrator_rpc
from podium.registry.v1 import policy_service_pb2_grpc as policies_rpc
from podium.registry.v1 import tool_registry_service_pb2_grpc as registry_rpc
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.process import ManagedProcess
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.status import status_of

if TYPE_CHECKING:
    # Only the stubs know the asynchronous face of a stub.
    from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceAsyncStub


if TYPE_CHECKING:
    # Only the stubs know the parameters of these.
    Handler = grpc.RpcMethodHandler[Any, Any]
    Router = grpc.GenericRpcHandler[Any, Any]
else:
    Handler = grpc.RpcMethodHandler
    Router = grpc.GenericRpcHandler


TASK = "what is 6 x 7?"
Record = trajectory_pb2.TrajectoryRecord
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
class Neighbours:
    orchestrator: ScriptedOrchestrator = field(default_factory=ScriptedOrchestrator)
    adapters: ScriptedAdapters = field(default_factory=ScriptedAdapters)
    ledger: SimpleLedger = field(default_factory=SimpleLedger)
    registry: FixedRegistry = field(default_factory=FixedRegistry)
    policies: FixedPolicies = field(default_factory=FixedPolicies)

    def handlers(self) -> dict[str, Handler]:
        methods = _Methods()
        server = cast("grpc.aio.Server", methods)
        orchestrator_rpc.add_OrchestratorServiceServicer_to_server(self.orchestrator, server)
        adapters_rpc.add_ToolAdapterServiceServicer_to_server(self.adapters, server)
        ledger_rpc.add_CostLedgerServiceServicer_to_server(self.ledger, server)
        budget_rpc.add_BudgetServiceServicer_to_server(self.ledger, server)
        prices_rpc.add_PriceBookServiceServicer_to_server(self.ledger, server)
        registry_rpc.add_ToolRegistryServiceServicer_to_server(self.registry, server)
        policies_rpc.add_PolicyServiceServicer_to_server(self.policies, server)
        return methods.by_path


class Outage:
    def __init__(self, methods: tuple[str, ...], error: DomainError | None) -> None:
        self._methods = methods
        self._error = error
        self._over = asyncio.Event()
        self.calls = 0
        """Returns the number of calls that it met."""

    def end(self) -> None:
        self._over.set()

    def around(self, path: str, handler: Handler) -> Handler:
        if not path.endswith(self._methods) or self._over.is_set():
            return handler

        async def away(request: Any, context: Any) -> Any:
            self.calls += 1
            if self._error is not None:
                await context.abort(*status_of(self._error))
            await self._over.wait()
            return await handler.unary_unary(request, context)  # type: ignore[misc]

        return grpc.unary_unary_rpc_method_handler(
            away, handler.request_deserializer, handler.response_serializer
        )


class TenantNeighbours(Router):
    """The scripted services on one port, with a script of its own for every tenant.

    A cancelled episode may ask once more after its test has ended. What it asks goes to
    the script of its own tenant, so no test counts the calls of another.
    """

    def __init__(self, others: Neighbours) -> None:
        self.others = others
        self._others = others.handlers()
        self._by_tenant: dict[str, dict[str, Handler]] = {}
        self._outages: dict[str, Outage] = {}

    def add(self, tenant: str) -> Neighbours:
        neighbours = Neighbours()
        self._by_tenant[tenant] = neighbours.handlers()
        return neighbours

    def fail(self, tenant: str, *methods: str, error: DomainError | None = None) -> Outage:
        """Stalls these RPCs of a tenant, or has them raise the error, until the outage ends."""
        self._outages[tenant] = Outage(methods, error)
        return self._outages[tenant]

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler | None:
        tenant, path = _tenant_of(handler_call_details), handler_call_details.method
        # A change of the catalogue is announced to processes instead of tenants.
        handlers = {} if path.endswith("/AwaitChange") else self._by_tenant.get(tenant, {})
        handler = (handlers or self._others).get(path)
        if handler is None or tenant not in self._outages:
            return handler
        return self._outages[tenant].around(path, handler)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[int]:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((self,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        yield port
        await server.stop(0)


class _Methods:
    """Stands where the generated code expects a server, and keeps what it registers."""

    def __init__(self) -> None:
        self.by_path: dict[str, Handler] = {}
        self.add_generic_rpc_handlers: Callable[..., None] = lambda handlers: None

    def add_registered_method_handlers(self, service: str, methods: Mapping[str, Handler]) -> None:
        self.by_path |= {f"/{service}/{name}": handler for name, handler in methods.items()}


def _tenant_of(call: grpc.HandlerCallDetails) -> str:
    token = str(dict(call.invocation_metadata)["authorization"]).removeprefix("Bearer ")
    return str(jwt.decode(token, options={"verify_signature": False})["tenant"])


async def read_topic(bootstrap: str, topic: str, count: int, tenant: str) -> list[Record]:
    async with asyncio.timeout(60):
        while True:
            records = await asyncio.to_thread(_read_topic, bootstrap, topic)
            found = [record for record in records if _tenant_of_record(record) == tenant]
            if len(found) >= count:
                return found
            await asyncio.sleep(0.1)


def _tenant_of_record(record: Record) -> str:
    return str(getattr(record, record.WhichOneof("record") or "").tenant)


def _read_topic(bootstrap: str, topic: str) -> list[Record]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    try:
        numbers = consumer.partitions_for_topic(topic) or set()
        partitions = [TopicPartition(topic, number) for number in sorted(numbers)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        found: list[Record] = []
        while any(consumer.position(place) < end for place, end in ends.items()):
            for records in consumer.poll(timeout_ms=500).values():
                found += [Record.FromString(record.value) for record in records]
        return found
    finally:
        consumer.close()


# Of evaluations of a tenant.
RUNS_MAX = 6


@dataclass
class Platform:
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
    """Settings by the module that is run."""
    tenant: str = "acme"

    def for_new_tenant(self) -> "Platform":
        tenant = f"tenant-{uuid.uuid4().hex[:12]}"
        return replace(self, tenant=tenant, neighbours=self.tenants.add(tenant))

    async def announce_change(self) -> None:
        """Returns once server and worker have dropped what they knew of the registry."""
        catalogue = self.tenants.others.registry
        catalogue.followers.clear()
        catalogue.version += 1
        while len(catalogue.followers) < 2:
            await asyncio.sleep(0.01)

    @cached_property
    def ada(self) -> "EpisodeServiceAsyncStub":
        identity = make_identity(self.tenant, "ada")
        return EpisodeServiceStub(client_channel(self.port, identity, self.keys))

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
                pb.ListEpisodesRequest(page_size=500, filter=pb.EpisodeFilter(states=[running]))
            )
            for episode in left.episodes:
                await client.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id))
                await finished(client, episode.id)

    async def run(self, task: str = TASK, **spec: Any) -> episode_pb2.Episode:
        """Runs an episode to its end."""
        return await finished(self.ada, (await start(self.ada, task, **spec)).id)

    async def trajectory(self, episode_id: str) -> trajectory_pb2.Trajectory:
        request = pb.GetTrajectoryRequest(episode_id=episode_id)
        return (await self.ada.GetTrajectory(request)).trajectory

    async def recorded(self, task: str = TASK, **spec: Any) -> trajectory_pb2.Trajectory:
        return await self.trajectory((await self.run(task, **spec)).id)

    async def invocations(self, episode_id: str) -> list[trajectory_pb2.ToolInvocation]:
        """Returns the tool calls of the first turn."""
        return list((await self.trajectory(episode_id)).turns[0].tool_invocations)

    async def episode(self, episode_id: str) -> episode_pb2.Episode:
        return (await self.ada.GetEpisode(pb.GetEpisodeRequest(episode_id=episode_id))).episode

    async def records(self, count: int) -> list[Record]:
        """Returns the tenant's records on the topic, once there are at least `count`."""
        return await read_topic(self.kafka.bootstrap_servers, self.topic, count, self.tenant)

    async def ready(self) -> None:
        await self.server.wait_ready(lambda: serving(self.port), 30)


def new_id() -> str:
    return str(uuid.UUID(int=uuid_utils.uuid7().int))


async def start(
    client: "EpisodeServiceAsyncStub", task: str = TASK, **spec: Any
) -> episode_pb2.Episode:
    request = pb.StartEpisodeRequest(
        episode_id=new_id(), spec=episode_pb2.EpisodeSpec(task=task, **spec)
    )
    return (await client.StartEpisode(request)).episode


async def finished(client: "EpisodeServiceAsyncStub", episode_id: str) -> episode_pb2.Episode:
    wanted = pb.WatchEpisodeRequest(episode_id=episode_id, end_only=True)
    async for response in client.WatchEpisode(wanted):
        return response.event.finished.episode
    raise AssertionError("the watch ended before the episode")


async def until_asked(client: "EpisodeServiceAsyncStub", episode_id: str) -> None:
    async for response in client.WatchEpisode(pb.WatchEpisodeRequest(episode_id=episode_id)):
        if response.event.HasField("approval_requested"):
            return


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


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
) -> AsyncIterator[Platform]:
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
            "signing_key__key_id": keys.key_id,
            "signing_key__private_key_file": str(folder / "worker.pem"),
            **(settings or {}),
        }
        for_server, for_worker = (
            {name: shared[name] for name in shared if _known(name, kind)}
            for kind in (ServerConfig, WorkerConfig)
        )
        made = {
            "episodes": {
                **for_server,
                "port": str(port),
                "verify_keys_file": str(verify),
                "evaluations_per_tenant": str(RUNS_MAX),
            },
            "episodes.worker": {
                **for_worker,
                "health_port": str(health_port),
                "kafka__bootstrap": kafka.bootstrap_servers,
                "trajectory_topic": topic,
                "reconcile_interval_s": "1",
            },
        }
        server, worker = (process_of(name, folder, made[name]) for name in made)
        platform = Platform(
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
