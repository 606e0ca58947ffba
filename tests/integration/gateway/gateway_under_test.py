import asyncio
import socket
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from openai import AsyncOpenAI

from callers import KeyPair, make_identity, make_key_pair, write_verify_keys
from gateway.config import DatabaseSettings, GatewaySettings
from gateway.keys.models import KeyRequest
from gateway.keys.offline import api_keys
from gateway.server import application, uvicorn_config
from integration.gateway.neighbours import (
    Budgets,
    Corpora,
    Ledger,
    Models,
    Policies,
    Prices,
    Tools,
)
from integration.gateway.scripted_episodes import ScriptedEpisodes
from podium.adapters.v1.corpus_service_pb2_grpc import add_CorpusServiceServicer_to_server
from podium.episodes.v1.episode_service_pb2_grpc import add_EpisodeServiceServicer_to_server
from podium.ledger.v1.budget_service_pb2_grpc import add_BudgetServiceServicer_to_server
from podium.ledger.v1.cost_ledger_service_pb2_grpc import add_CostLedgerServiceServicer_to_server
from podium.ledger.v1.price_book_service_pb2_grpc import add_PriceBookServiceServicer_to_server
from podium.orchestrator.v1.orchestrator_service_pb2_grpc import (
    add_OrchestratorServiceServicer_to_server,
)
from podium.registry.v1.policy_service_pb2_grpc import add_PolicyServiceServicer_to_server
from podium.registry.v1.tool_registry_service_pb2_grpc import (
    add_ToolRegistryServiceServicer_to_server,
)
from podium_kit.rpc.identity import Scope, acting_as
from podium_kit.rpc.server import Service, running_server
from podium_kit.rpc.settings import ServerSettings

EPISODES, REGISTRY = "podium.episodes.v1", "podium.registry.v1"
LEDGER, ADAPTERS, MODELS = "podium.ledger.v1", "podium.adapters.v1", "podium.orchestrator.v1"
EVERYTHING = (Scope.TENANT_ADMIN,)
# Services that `neighbours` and `scripted_episodes` answer for.
SERVED = {
    f"{EPISODES}.EpisodeService",
    f"{REGISTRY}.ToolRegistryService",
    f"{REGISTRY}.PolicyService",
    f"{LEDGER}.CostLedgerService",
    f"{LEDGER}.PriceBookService",
    f"{LEDGER}.BudgetService",
    f"{ADAPTERS}.CorpusService",
}
TARGETS = (
    "episodes_target",
    "tool_registry_target",
    "cost_ledger_target",
    "tool_adapters_target",
    "orchestrator_inference_target",
)


class SignallessServer(uvicorn.Server):
    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()


@dataclass
class Gateway:
    base_url: str
    database_url: str
    key: str
    episodes: ScriptedEpisodes
    tools: Tools
    draining: asyncio.Event
    settings: GatewaySettings

    def environment(self, **changes: object) -> dict[str, str]:
        given = {**self.settings.model_dump(include=self.settings.model_fields_set), **changes}
        return {f"GATEWAY_{name.upper()}": str(value) for name, value in given.items()}

    async def new_key(
        self, tenant: str = "acme", scopes: Iterable[str] = EVERYTHING, subject: str = "ada"
    ) -> str:
        operator = make_identity(tenant, "operator", ())
        async with api_keys(DatabaseSettings(database_url=self.database_url)) as keys:
            with acting_as(operator):
                return (await keys.issue(KeyRequest(tenant, subject, frozenset(scopes))))[1]

    def http(self, key: str | None = None) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {key or self.key}"} if key != "" else {}
        # Without TLS: loading the authorities takes longer than most tests.
        return httpx.AsyncClient(base_url=self.base_url, headers=headers, timeout=30, verify=False)

    async def get(self, path: str, key: str | None = None, **options: Any) -> httpx.Response:
        async with self.http(key) as client:
            return await client.get(path, **options)

    async def post(self, path: str, key: str | None = None, **options: Any) -> httpx.Response:
        async with self.http(key) as client:
            return await client.post(path, **options)

    async def put(self, path: str, key: str | None = None, **options: Any) -> httpx.Response:
        async with self.http(key) as client:
            return await client.put(path, **options)

    async def delete(self, path: str, key: str | None = None, **options: Any) -> httpx.Response:
        async with self.http(key) as client:
            return await client.delete(path, **options)

    def openai(self, key: str | None = None) -> AsyncOpenAI:
        return AsyncOpenAI(base_url=f"{self.base_url}/v1", api_key=key or self.key)


@asynccontextmanager
async def run_gateway(
    database_url: str, folder: Path, others: Sequence[Service] = (), /, **settings: object
) -> AsyncIterator[Gateway]:
    pair = make_key_pair("gateway")
    # The stubs call a servicer abstract until it has every RPC; gRPC itself answers
    # UNIMPLEMENTED for those it lacks.
    episodes, tools = ScriptedEpisodes(), Tools()  # type: ignore[abstract]
    server, services = _upstream(pair, folder, episodes, tools, settings.get("tls"))
    async with running_server(server, [*services, *others], {}) as port:
        given = _settings(database_url, pair, folder, port, **settings)
        draining = asyncio.Event()
        async with application(given, draining) as app, _served(app, given, draining) as url:
            gateway = Gateway(url, database_url, "", episodes, tools, draining, given)
            gateway.key = await gateway.new_key()
            yield gateway


def _upstream(
    pair: KeyPair, folder: Path, episodes: ScriptedEpisodes, tools: Tools, tls: object
) -> tuple[ServerSettings, list[Service]]:
    keys = write_verify_keys(folder / "verify.json", [pair])
    values = {"port": 0, "verify_keys_file": keys, "drain_grace_s": 0.1, "tls": tls}
    settings = ServerSettings.model_validate(values)
    return settings, [
        Service(add_EpisodeServiceServicer_to_server, episodes, f"{EPISODES}.EpisodeService"),
        Service(
            add_ToolRegistryServiceServicer_to_server, tools, f"{REGISTRY}.ToolRegistryService"
        ),
        Service(add_PolicyServiceServicer_to_server, Policies(), f"{REGISTRY}.PolicyService"),  # type: ignore[abstract]
        Service(add_CostLedgerServiceServicer_to_server, Ledger(), f"{LEDGER}.CostLedgerService"),  # type: ignore[abstract]
        Service(add_PriceBookServiceServicer_to_server, Prices(), f"{LEDGER}.PriceBookService"),  # type: ignore[abstract]
        Service(add_BudgetServiceServicer_to_server, Budgets(), f"{LEDGER}.BudgetService"),  # type: ignore[abstract]
        Service(add_CorpusServiceServicer_to_server, Corpora(), f"{ADAPTERS}.CorpusService"),  # type: ignore[abstract]
        Service(
            add_OrchestratorServiceServicer_to_server,
            Models(),  # type: ignore[abstract]
            f"{MODELS}.OrchestratorService",
        ),
    ]


def _settings(
    database_url: str, pair: KeyPair, folder: Path, upstream_port: int, **settings: object
) -> GatewaySettings:
    key_file = folder / "gateway.pem"
    key_file.write_text(pair.private_pem)
    targets = dict.fromkeys(TARGETS, f"127.0.0.1:{upstream_port}")
    values = {"port": 0, "database_url": database_url, "signing_key_file": key_file, **targets}
    # A busy machine is not away.
    patient = {"answer_timeout_s": 300, "database_timeout_s": 300, "body_timeout_s": 300}
    return GatewaySettings.model_validate({**values, **patient, "drain_grace_s": 1, **settings})


@asynccontextmanager
async def _served(
    app: FastAPI, settings: GatewaySettings, draining: asyncio.Event
) -> AsyncIterator[str]:
    # asyncio sends at once, without Nagle's algorithm, where a socket names its protocol.
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind((settings.host, 0))
    config = uvicorn_config(app, settings)
    server = SignallessServer(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        scheme = "http" if settings.tls is None else "https"
        yield f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        draining.set()
        server.should_exit = True
        await serving
