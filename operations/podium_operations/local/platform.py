import asyncio
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from episodes.workflows.search_attributes import SEARCH_ATTRIBUTES
from podium_kit.bundled_files import bundled_folder
from podium_kit.embedded.gate.gate import Gate
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.postgres import EmbeddedPostgres
from podium_kit.embedded.process import ManagedProcess
from podium_kit.embedded.server import EmbeddedServer
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_operations.local.engines import EngineChoice, LocalEngine, make_engine
from podium_operations.local.keys import ensure_keys
from podium_operations.local.ports import assign_ports
from podium_operations.local.services import (
    ADAPTERS_PREFIX,
    INHERITED,
    LOOPBACK,
    Engine,
    ServiceProcess,
    Surroundings,
    service_processes,
)
from podium_operations.local.state import StateFolder, write_private
from podium_operations.local.supervision import Supervisor, answers

log = logging.getLogger(__name__)

DATABASES = ("cost_ledger", "tool_registry", "tool_adapters", "episodes", "gateway")
TOPIC_PARTITIONS = {"trajectories.v1": 3, "ledger.alerts.v1": 1}
SERVICE_START_TIMEOUT_S = 60.0
# It is ready once its model is, which may take minutes.
NEEDS_THE_MODEL = "orchestrator_inference"
LOG_CHECK_S = 5.0

# Called with the name of a step when it starts, and again with True when it is done.
Report = Callable[[str, bool], None]


@dataclass(frozen=True)
class PlatformOptions:
    state_dir: Path
    engine: EngineChoice = field(default_factory=EngineChoice)
    gateway_port: int | None = None
    telemetry: bool = True
    settings: dict[str, dict[str, str]] = field(default_factory=dict)


class LocalPlatform:
    """Every server and service of the platform as child processes."""

    def __init__(self, options: PlatformOptions, report: Report) -> None:
        self.options = options
        self.state = StateFolder(options.state_dir)
        self.ports: dict[str, int] = {}
        self.processes: dict[str, ManagedProcess] = {}
        self.postgres: EmbeddedPostgres | None = None
        self.servers: dict[str, EmbeddedServer] = {}
        self.engine: Engine | None = None
        self.around: Surroundings | None = None
        self.dsn: dict[str, str] = {}
        self._report = report
        self._stack = AsyncExitStack()
        self._services: dict[str, ServiceProcess] = {}
        self._supervised: set[str] = set()

    @property
    def gateway_url(self) -> str:
        return f"http://{LOOPBACK}:{self.ports['gateway']}"

    @property
    def allowed_hosts(self) -> list[str]:
        adapters = self.options.settings.get("tool_adapters", {})
        variable = f"{ADAPTERS_PREFIX}ALLOWED_HOSTS"
        text = adapters.get("allowed_hosts") or os.environ.get(variable, "[]")
        hosts: list[str] = json.loads(text)
        return hosts

    async def start(self) -> None:
        """Starts everything, or stops what it started and raises what went wrong."""
        try:
            await self._start()
        except BaseException as error:
            await self.stop()
            # The first error is the cause; the other tasks were cancelled because of it.
            raise _first_cause(error) from error

    async def stop(self) -> None:
        self._supervised.clear()
        await self._stack.aclose()

    async def supervise(self) -> None:
        """Starts processes again that died, and bounds their logs, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(Supervisor(self._dead, self.revive).run())
            group.create_task(self._rotate_logs())

    async def _rotate_logs(self) -> None:
        while True:
            await asyncio.sleep(LOG_CHECK_S)
            for process in list(self.processes.values()):
                try:
                    await asyncio.to_thread(process.rotate_log)
                except OSError as error:
                    log.warning("%s cannot be rotated: %s", process.log_path, error.strerror)

    def _dead(self) -> list[str]:
        return [name for name in self._supervised if not self.processes[name].running]

    async def revive(self, name: str) -> None:
        if name in self.servers:
            await self.servers[name].start()
        else:
            self.processes[name].start()
        self._publish_processes()

    def _publish_processes(self) -> None:
        ports = {name: service.port for name, service in self._services.items()}
        known = {
            name: {
                "pid": process.pid,
                "port": ports.get(name, self.ports.get(name)),
                "log": str(process.log_path),
            }
            for name, process in self.processes.items()
        }
        write_private(self.state.processes_file, json.dumps(known))

    async def _start(self) -> None:
        self._stack.callback(self.state.release)
        self.state.acquire()
        self.ports = assign_ports(self.state, self.options.gateway_port)
        keys = ensure_keys(self.state.keys)
        bundled = bundled_folder() / "mcp_servers"
        shutil.copytree(bundled, self.state.mcp_servers, dirs_exist_ok=True)
        engine = make_engine(self.options.engine, self.ports["vllm"], self.state.logs)
        self.engine = engine.address
        gate = Gate.make(self.state.certificates)
        # The model takes longest by far, so it loads while everything else starts.
        async with asyncio.TaskGroup() as group:
            group.create_task(self._start_engine(engine))
            self.dsn = await self._start_servers(gate)
            self.around = Surroundings(
                self.ports,
                self.dsn,
                keys,
                engine.address,
                self.state.mcp_servers,
                self.state.telemetry if self.options.telemetry else None,
                self.options.settings,
                gate.client_files(),
            )
            for service in service_processes(self.around):
                await self._spawn(service)
            for name in self._services:
                if name != NEEDS_THE_MODEL:
                    await self._wait_for(name)
        await self._wait_for(NEEDS_THE_MODEL)
        self._publish_processes()

    async def _start_engine(self, engine: LocalEngine) -> None:
        if engine.server is not None:
            await self._run_server("vllm", f"model {engine.address.model}", engine.server)

    async def _start_servers(self, gate: Gate) -> dict[str, str]:
        path, logs = self.state.path, self.state.logs
        self.postgres = EmbeddedPostgres(path / "postgres", log_path=logs / "postgres.log")
        kafka = EmbeddedKafka(self.ports["kafka"], log_path=logs / "kafka.log", gate=gate)
        temporal = EmbeddedTemporal(
            path / "temporal",
            self.ports["temporal"],
            search_attributes=SEARCH_ATTRIBUTES,
            log_path=logs / "temporal.log",
            gate=gate,
        )
        await self._run_server("postgres", "PostgreSQL", self.postgres)
        await self._run_server("kafka", "Kafka broker", kafka)
        await kafka.create_topics(TOPIC_PARTITIONS)
        await self._run_server("temporal", "Temporal", temporal)
        return {name: await self.postgres.create_database(name) for name in DATABASES}

    async def _run_server(self, name: str, title: str, server: EmbeddedServer) -> None:
        self._report(title, False)
        self._stack.push_async_callback(server.stop)
        await server.start()
        self.servers[name] = server
        self.processes[name] = server.process
        self._supervised.add(name)
        self._report(title, True)

    async def _spawn(self, service: ServiceProcess) -> None:
        self._report(service.name, False)
        process = self.process_of(service)
        self._services[service.name] = service
        self.processes[service.name] = process
        self._stack.push_async_callback(process.terminate)
        process.start()

    def process_of(self, service: ServiceProcess) -> ManagedProcess:
        return ManagedProcess(
            service.name,
            # -P: a folder of the same name where podium was called is not the service.
            [sys.executable, "-P", "-m", service.module],
            log_path=self.state.logs / f"{service.name}.log",
            env={**_inherited_environment(), **service.environment},
        )

    async def _wait_for(self, name: str) -> None:
        await self.processes[name].wait_ready(
            partial(answers, name, self._services[name].port), SERVICE_START_TIMEOUT_S
        )
        self._supervised.add(name)
        self._report(name, True)


def _first_cause(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _inherited_environment() -> dict[str, str]:
    """Variables that a service inherits; never a credential that happens to be set."""
    names = ("HOME", "LANG", "TMPDIR", "SSL_CERT_FILE", "PODIUM_CACHE_DIR", "PYTHONPATH")
    # Tools may be programs that were installed beside us.
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
    inherited = (*names, *INHERITED)
    return {"PATH": path} | {name: os.environ[name] for name in inherited if name in os.environ}
