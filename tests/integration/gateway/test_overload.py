import asyncio
from asyncio.subprocess import DEVNULL
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import httpx

from callers import make_identity
from embedded_servers import Database
from gateway.config import DatabaseSettings
from gateway.keys.models import KeyRequest
from gateway.keys.offline import api_keys
from integration.episodes.platform_under_test import (
    UPSTREAM_TARGETS,
    Platform,
    run_platform,
)
from integration.gateway.test_serving import start_command, until_ready
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_kit.rpc.identity import Scope, acting_as

OPEN_MAX = 2
CLIENTS = 20


@dataclass
class Clients:
    http: httpx.AsyncClient
    turned_away: Counter[int] = field(default_factory=Counter)

    async def start(self, number: int) -> str:
        headers = {"idempotency-key": f"client-{number}"}
        body = {"spec": {"task": f"what is 6 x {number}?"}}
        while True:
            reply = await self.http.post("/v1/episodes", json=body, headers=headers)
            if reply.status_code != 503:
                return str(reply.raise_for_status().json()["episode"]["id"])
            self.turned_away[number] += 1
            await asyncio.sleep(float(reply.headers["retry-after"]))

    async def answer(self, episode_id: str) -> str:
        while True:
            reply = await self.http.get(f"/v1/episodes/{episode_id}")
            if reply.status_code == 503:
                await asyncio.sleep(float(reply.headers["retry-after"]))
                continue
            episode = reply.raise_for_status().json()["episode"]
            if "end_time" in episode:
                return str(episode["answer"])
            await asyncio.sleep(0.2)


async def test_clients_that_come_again_as_they_are_told_lose_no_episode_and_start_none_twice(
    database: Database, temporal: EmbeddedTemporal, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    limit = {"open_calls_max": str(OPEN_MAX)}
    async with (
        run_platform(await database("episodes"), temporal, kafka, tmp_path, limit) as platform,
        gateway_before(platform, await database("gateway"), tmp_path) as http,
    ):
        clients = Clients(http)
        # Starts stay open, so that all others are too many.
        outage = platform.tenants.fail(platform.tenant, "ToolRegistryService/ResolveToolset")
        starts = [asyncio.create_task(clients.start(number)) for number in range(CLIENTS)]
        async with asyncio.timeout(120):
            while len(clients.turned_away) < CLIENTS - OPEN_MAX:
                await asyncio.sleep(0.05)
        outage.end()
        async with asyncio.timeout(240):
            ids = await asyncio.gather(*starts)
            answers = await asyncio.gather(*map(clients.answer, ids))
        connection = await asyncpg.connect(platform.database_url.replace("+asyncpg", ""))
        stored = await connection.fetch("SELECT id::text FROM episodes")
        await connection.close()
    assert set(answers) == {"42"}
    assert {row["id"] for row in stored} == set(ids)
    assert len(set(ids)) == len(stored) == CLIENTS
    asked = platform.neighbours.orchestrator.asked
    assert asked == dict.fromkeys((f"{id}/1/model/0" for id in ids), 1)
    assert set(platform.neighbours.ledger.captured) == set(asked)


@asynccontextmanager
async def gateway_before(
    platform: Platform, database_url: str, folder: Path
) -> AsyncIterator[httpx.AsyncClient]:
    key_file = folder / "gateway.pem"
    key_file.write_text(platform.keys.private_pem)
    others = platform.settings["episodes.worker"]
    port = free_port()
    settings = {
        "port": port,
        "database_url": database_url,
        "signing_key_file": key_file,
        "signing_key_id": platform.keys.key_id,
        "episodes_target": f"127.0.0.1:{platform.port}",
        **{name: others[name] for name in UPSTREAM_TARGETS},
        "requests_per_s": 1e5,
        "request_burst": 10**6,
    }
    process = await start_command(
        {f"GATEWAY_{name.upper()}": str(value) for name, value in settings.items()}, stderr=DEVNULL
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=300) as http:
            await until_ready(http)
            async with api_keys(DatabaseSettings(database_url=database_url)) as keys:
                with acting_as(make_identity(platform.tenant, "operator", ())):
                    scopes = frozenset({Scope.TENANT_ADMIN})
                    _, key = await keys.issue(KeyRequest(platform.tenant, "ada", scopes))
            http.headers["authorization"] = f"Bearer {key}"
            yield http
    finally:
        process.kill()
        await process.wait()
