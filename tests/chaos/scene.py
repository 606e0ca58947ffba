import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import make_url

from chaos import victims
from chaos.effects_log import EffectsLog
from chaos.model import MODEL
from chaos.parting import Relay
from chaos.scripts import specs
from chaos.victims import PAIRS, Pair
from gateway.config import DatabaseSettings
from gateway.keys.models import KeyRequest
from gateway.keys.offline import api_keys
from local_platforms import quiet
from podium_cli.up.running import fill
from podium_kit.embedded.ports import accepts_connections, free_ports
from podium_kit.embedded.postgres import EmbeddedPostgres
from podium_kit.embedded.process import ManagedProcess
from podium_kit.rpc.identity import Identity, Role, acting_as
from podium_operations.local.engines import EngineChoice
from podium_operations.local.platform import LocalPlatform, PlatformOptions
from podium_operations.local.ports import SERVERS
from podium_operations.local.state import Connection, StateFolder
from podium_operations.local.supervision import Supervisor

TENANTS = ("default", "acme", "globex")
UNLIMITED = {"requests_per_s": 1e5, "burst": 100_000, "concurrency": 1000, "running_episodes": 5000}
TOKEN_PRICE = "0.2"
TOOL_START_S = 120.0
# Of the tool server's gRPC method, and its log.
GRPC, EFFECTS = "tool_server_grpc", "effects.jsonl"
SOCKET = ".s.PGSQL.5432"
# Whose files a full disk is tried with, and how much room they are given.
# PostgreSQL moves its folder into place, so its disk is that of the whole state folder.
DISKS = {victims.POSTGRES: "700m", victims.TEMPORAL: "128m", victims.LOGS: "128m"}
FOLDERS = {victims.POSTGRES: "."}


@dataclass
class Scene:
    folder: Path
    platform: LocalPlatform
    outside: dict[str, ManagedProcess]
    relays: dict[str, Relay]
    disks: dict[str, Path]
    client_effects: EffectsLog
    connection: Connection | None = None
    keys: dict[str, str] = field(default_factory=dict)

    @property
    def effects_log(self) -> Path:
        return self.folder / EFFECTS

    @property
    def billing_log(self) -> Path:
        return self.folder / "billing.jsonl"

    def process(self, victim: str) -> ManagedProcess:
        return self.outside.get(victim) or self.platform.processes[victim]

    def client(self, tenant: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.platform.gateway_url,
            headers={"authorization": f"Bearer {self.keys[tenant]}"},
            timeout=15,
            trust_env=False,
        )


@asynccontextmanager
async def running_scene(folder: Path) -> AsyncIterator[Scene]:
    state = StateFolder(folder / "state")
    async with AsyncExitStack() as stack:
        names = [*SERVERS, *(pair.name for pair in PAIRS), *victims.OUTSIDE, GRPC]
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        outside = {name: _outside(name, ports, folder) for name in victims.OUTSIDE}
        for name, process in outside.items():
            process.start()
            stack.push_async_callback(process.kill)
            await process.wait_ready(partial(_accepts, ports[name]), TOOL_START_S)
        state.path.mkdir(mode=0o700)
        disks = mounted(state.path, stack)
        state.ports_file.write_text(json.dumps({name: ports[name] for name in SERVERS}))
        relays, settings = await _relayed(state.path, ports, stack)
        engine = EngineChoice(
            openai_base_url=f"http://127.0.0.1:{ports[victims.MODEL_SERVER]}/v1", model=MODEL
        )
        platform = LocalPlatform(PlatformOptions(state.path, engine, settings=settings), quiet)
        await platform.start()
        stack.push_async_callback(platform.stop)
        log = EffectsLog(folder / EFFECTS)
        stack.callback(log.close)
        scene = Scene(folder, platform, outside, relays, disks, log)
        supervised = [platform.supervise(), Supervisor(*_watched(outside)).run()]
        for one in supervised:
            await _in_background(stack, one)
        scene.connection = await fill(platform, quiet)
        await _equipped(scene, ports)
        yield scene


def mounted(state: Path, stack: AsyncExitStack) -> dict[str, Path]:
    """Small disks under the folders that are to become full; none where we may not mount."""
    found = {}
    for victim, size in DISKS.items():
        path = state / FOLDERS.get(victim, victim)
        path.mkdir(mode=0o711, exist_ok=True)
        options = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=711", "chaos", str(path)]
        if os.geteuid() or subprocess.run(options, check=False, capture_output=True).returncode:
            continue
        stack.callback(subprocess.run, ["umount", "-l", str(path)], check=False)
        found[victim] = path
    return found


def _outside(name: str, ports: dict[str, int], folder: Path) -> ManagedProcess:
    module, log, *more = {
        victims.MODEL_SERVER: ("chaos.model", "billing.jsonl"),
        victims.TOOL_SERVER: ("chaos.effects", EFFECTS, "--grpc-port", str(ports[GRPC])),
    }[name]
    arguments = ["--port", str(ports[name]), "--log", str(folder / log), *more]
    argv = [sys.executable, "-m", module, *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return ManagedProcess(name, argv, log_path=folder / f"{name}.log", env=environment)


async def _accepts(port: int) -> bool:
    return accepts_connections(port)


def _watched(processes: dict[str, ManagedProcess]) -> Any:
    async def revive(name: str) -> None:
        processes[name].start()

    return lambda: [name for name, each in processes.items() if not each.running], revive


async def _in_background(stack: AsyncExitStack, work: Any) -> None:
    task = asyncio.create_task(work)

    async def end() -> None:
        task.cancel()
        await asyncio.wait({task})

    stack.push_async_callback(end)


async def _relayed(
    state: Path, ports: dict[str, int], stack: AsyncExitStack
) -> tuple[dict[str, Relay], dict[str, dict[str, str]]]:
    """A relay for each pair that can be parted, and the settings that lead through them."""
    relays: dict[str, Relay] = {}
    settings: dict[str, dict[str, str]] = {
        "tool_adapters": {"allowed_hosts": '["127.0.0.1"]'},
    }
    for pair in PAIRS:
        if pair.called == victims.BROKER:
            # Clients are sent on to the address that it advertises: its gate is stopped instead.
            continue
        if pair.called == victims.POSTGRES:
            relay, given = await _to_database(pair, state)
        else:
            relay = Relay(port=ports[pair.called])
            await relay.listen(port=ports[pair.name])
            given = _target(pair, f"127.0.0.1:{ports[pair.name]}")
        stack.push_async_callback(relay.close)
        relays[pair.name] = relay
        settings.setdefault(pair.caller, {}).update(given)
    return relays, settings


def _target(pair: Pair, address: str) -> dict[str, str]:
    if pair.called == victims.MODEL_SERVER:
        return {"engine_base_url": f"http://{address}/v1"}
    return {f"{pair.called}_target": address}


async def _to_database(pair: Pair, state: Path) -> tuple[Relay, dict[str, str]]:
    data = state / victims.POSTGRES
    relay = Relay(path=data / SOCKET)
    folder = state / f"pg-{pair.caller}"
    folder.mkdir(mode=0o700)
    await relay.listen(path=folder / SOCKET)
    database = "episodes" if pair.caller == victims.WORKER else pair.caller
    url = make_url(EmbeddedPostgres(data).dsn(database)).set(query={"host": str(folder)})
    if pair.caller == victims.LEDGER:
        url = url.set(username="cost_ledger_service")
    return relay, {"database_url": url.render_as_string(hide_password=False)}


async def _equipped(scene: Scene, ports: dict[str, int]) -> None:
    assert scene.connection is not None
    async with api_keys(DatabaseSettings(database_url=scene.platform.dsn["gateway"])) as issued:
        for tenant in TENANTS:
            wanted = KeyRequest(tenant, "chaos", roles=frozenset({Role.TENANT_ADMIN}))
            with acting_as(Identity(tenant, "chaos", frozenset())):
                scene.keys[tenant] = (await issued.issue(wanted))[1]
    scene.keys["platform"] = scene.connection.admin_key
    async with scene.client("platform") as admin:
        await _sent(admin, "POST", "/v1/prices", {"specs": _prices()})
        addresses = f"http://127.0.0.1:{ports[victims.TOOL_SERVER]}", f"127.0.0.1:{ports[GRPC]}"
        for spec in specs(*addresses):
            await _sent(admin, "POST", "/v1/tools", {"spec": spec, "shared": True})
        for tenant in TENANTS:
            await _sent(admin, "PUT", f"/v1/tenants/{tenant}/limits", UNLIMITED)
    limit = {"currency_code": "USD", "amount": "1000"}
    budget = {"scope": "BUDGET_SCOPE_TENANT", "window": "BUDGET_WINDOW_TOTAL", "hard_limit": limit}
    for tenant in TENANTS:
        async with scene.client(tenant) as client:
            await _sent(client, "POST", "/v1/budgets", {"budget": {"id": "all", **budget}})


def _prices() -> list[dict[str, Any]]:
    tokens = [
        {"dimension": f"USAGE_DIMENSION_{name}", "unit_price": TOKEN_PRICE, "per": "1000000"}
        for name in ("INPUT_FRESH", "OUTPUT_TEXT")
    ]
    call = [{"dimension": "USAGE_DIMENSION_CALL", "unit_price": "0.000001"}]
    skus = {
        f"orchestrator/{MODEL}": tokens,
        f"llm/{MODEL}": tokens,
        "tool/outside": call,
    }
    return [
        {"sku": sku, "currency_code": "USD", "components": parts} for sku, parts in skus.items()
    ]


async def _sent(client: httpx.AsyncClient, method: str, path: str, body: Any) -> None:
    reply = await client.request(method, path, json=body)
    if not reply.is_success:
        raise SystemExit(f"the scene is not set: {method} {path}: {reply.text}")
