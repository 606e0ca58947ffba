from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import httpx
import openai
import pytest

from embedded_servers import Database
from gateway.errors import TooManyRequests
from gateway.limits.models import TenantLimits
from gateway.limits.open_requests import OpenRequests
from gateway.limits.rate_limiter import LEASE_S, RateLimiter, batch
from gateway.limits.store import PostgresBucketStore, PostgresLimitsStore, PostgresSlotStore
from integration.gateway.gateway_under_test import Gateway, run_gateway
from integration.gateway.scripted_episodes import make_finish
from podium.common.v1 import attachment_pb2
from podium_kit.postgres.engine import open_engine
from podium_kit.rpc.identity import Scope


async def test_an_answer_says_where_the_tenant_stands(gateway: Gateway) -> None:
    headers = (await gateway.get("/v1/models")).headers
    assert headers["x-ratelimit-limit-requests"] == "2000"
    assert 1900 <= int(headers["x-ratelimit-remaining-requests"]) < 2000
    assert headers["x-ratelimit-reset-requests"].endswith("s")


async def test_too_many_requests_are_429_with_the_time_to_wait(
    database: Database, tmp_path: Path
) -> None:
    settings = {"requests_per_s": 0.01, "request_burst": 2}
    async with run_gateway(await database("gateway"), tmp_path, **settings) as gateway:
        replies = [await gateway.get("/v1/models") for _ in range(3)]
        stranger = await gateway.get(
            "/v1/models", headers={"authorization": f"Bearer {await gateway.new_key('other')}"}
        )
        async with gateway.openai() as client:
            with pytest.raises(openai.RateLimitError, match="requests per second"):
                await client.with_options(max_retries=0).models.list()
    assert [reply.status_code for reply in replies] == [200, 200, 429]
    rejected = replies[-1]
    assert 90 <= int(rejected.headers["retry-after"]) <= 100
    assert rejected.headers["x-ratelimit-remaining-requests"] == "0"
    assert rejected.json()["error"]["type"] == "rate_limit_error"
    assert stranger.status_code == 200


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def wall(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)


async def test_replicas_together_admit_exactly_what_the_bucket_holds(database: Database) -> None:
    engine, clock = open_engine(await database("gateway")), Clock()
    limits = TenantLimits(requests_per_s=40.0, burst=80, concurrency=1, running_episodes=1)
    store = PostgresBucketStore(engine, clock.wall)
    replicas = [RateLimiter(store, clock.monotonic) for _ in range(3)]

    async def admitted() -> int:
        answers = [await attempt(each, limits) for _ in range(60) for each in replicas]
        return sum(answers)

    assert await admitted() == limits.burst
    clock.seconds += 0.5
    assert await admitted() == 20
    clock.seconds += 3600
    assert await admitted() == limits.burst
    await engine.dispose()


async def test_a_replica_wastes_at_most_the_batch_it_holds_when_its_lease_lapses(
    database: Database,
) -> None:
    engine, clock = open_engine(await database("gateway")), Clock()
    limits = TenantLimits(requests_per_s=40.0, burst=80, concurrency=1, running_episodes=1)
    limiter = RateLimiter(PostgresBucketStore(engine, clock.wall), clock.monotonic)
    assert await attempt(limiter, limits)
    drawn = batch(limits)
    clock.seconds += LEASE_S + 0.025
    # The bucket is full again; what the lease still held is gone.
    assert sum([await attempt(limiter, limits) for _ in range(100)]) == limits.burst
    assert drawn == 2
    await engine.dispose()


async def attempt(limiter: RateLimiter, limits: TenantLimits) -> bool:
    try:
        await limiter.admit("acme", limits)
    except TooManyRequests:
        return False
    return True


@pytest.mark.parametrize("concurrency", [3, 40])
async def test_replicas_together_open_no_more_requests_than_allowed(
    database: Database, concurrency: int
) -> None:
    engine = open_engine(await database("gateway"))
    limits = TenantLimits(1.0, 1, concurrency, 1)
    replicas = [OpenRequests(PostgresSlotStore(engine, uuid4())) for _ in range(2)]
    spare = concurrency // 16
    async with AsyncExitStack() as stack:
        opened = [await opens(replicas[n % 2], limits, stack) for n in range(2 * concurrency)]
        assert concurrency - spare <= sum(opened) <= concurrency
    async with AsyncExitStack() as stack:
        again = [await opens(replicas[0], limits, stack) for _ in range(concurrency)]
        assert sum(again) >= concurrency - 2 * spare
    await engine.dispose()


async def opens(replica: OpenRequests, limits: TenantLimits, stack: AsyncExitStack) -> bool:
    try:
        await stack.enter_async_context(replica.slot("acme", limits))
    except TooManyRequests:
        return False
    return True


async def test_slots_of_a_dead_replica_come_back(database: Database) -> None:
    engine = open_engine(await database("gateway"))
    dead, alive = (PostgresSlotStore(engine, uuid4()) for _ in range(2))
    assert await dead.take("acme", 5, total=5, lease_s=30) == 5
    assert await alive.take("acme", 1, total=5, lease_s=30) == 0
    # Its lease ended a second ago and was not renewed.
    await dead.renew(lease_s=-1)
    assert await alive.take("acme", 3, total=5, lease_s=30) == 3
    await engine.dispose()


async def test_only_the_platform_changes_limits_and_they_hold_at_once(gateway: Gateway) -> None:
    platform = await gateway.new_key("operators", [Scope.PLATFORM_ADMIN])
    path = "/v1/tenants/acme/limits"
    async with gateway.http() as tenant, gateway.http(platform) as admin:
        rejected = await tenant.put(path, json={"burst": 9_999})
        await set_limits(admin, path, {"requests_per_s": 0.001, "burst": 1})
        mine = (await tenant.get("/v1/limits")).json()
        after = await tenant.get("/v1/limits")
        restored = (await admin.delete(path)).json()
        entries = (await admin.get("/v1/audit-log?action=ChangeLimits")).json()["entries"]
    assert (rejected.status_code, rejected.json()["error"]["reason"]) == (403, "SCOPE_MISSING")
    assert (mine["burst"], after.status_code, restored["burst"]) == (1, 429, 2_000)
    changed = [(entry["before"]["burst"], entry["after"]["burst"]) for entry in entries]
    assert changed == [(1, 2_000), (2_000, 1)]


async def test_a_change_leaves_what_another_changed_meanwhile(database: Database) -> None:
    engine = open_engine(await database("gateway"))
    store = PostgresLimitsStore(engine)
    limits = TenantLimits(requests_per_s=40.0, burst=80, concurrency=1, running_episodes=1)
    assert await store.put("acme", replace(limits, burst=9), ["burst"]) == replace(limits, burst=9)
    both = replace(limits, burst=9, files=7)
    assert await store.put("acme", replace(limits, files=7), ["files"]) == both
    assert await store.put("acme", limits, []) == await store.get("acme") == both
    await engine.dispose()


async def set_limits(admin: httpx.AsyncClient, path: str, body: dict[str, float]) -> None:
    # Nonsense is rejected and changes nothing, as a rate whose next request never comes.
    for nonsense in ({"burst": 0}, {"requests_per_s": 5e-324}):
        assert (await admin.put(path, json=nonsense)).status_code == 400
    assert (await admin.put(path, json=body)).is_success


async def test_every_start_carries_the_tenants_limit_and_never_the_callers(
    gateway: Gateway,
) -> None:
    platform = await gateway.new_key("operators", [Scope.PLATFORM_ADMIN])
    gateway.episodes.script = lambda request: [make_finish(answer="42")]
    chat = {"model": "podium", "messages": [{"role": "user", "content": "6*7?"}]}
    async with gateway.http() as tenant, gateway.http(platform) as admin:
        await set_limits(admin, "/v1/tenants/acme/limits", {"running_episodes": 3})
        body = {"spec": {"task": "mine"}, "running_limit": 1_000_000}
        assert (await tenant.post("/v1/episodes", json=body)).is_success
        assert (await tenant.post("/v1/chat/completions", json=chat)).is_success
    assert [one.request.running_limit for one in gateway.episodes.episodes.values()] == [3, 3]


async def test_every_start_carries_the_tenants_file_quota_and_never_the_callers(
    gateway: Gateway,
) -> None:
    platform = await gateway.new_key("operators", [Scope.PLATFORM_ADMIN])
    gateway.episodes.script = lambda request: [make_finish(answer="42")]
    chat = {"model": "podium", "messages": [{"role": "user", "content": "6*7?"}]}
    body = {"spec": {"task": "mine"}, "file_quota": {"files": "9", "size_bytes": "9"}}
    async with gateway.http() as tenant, gateway.http(platform) as admin:
        assert (await tenant.post("/v1/episodes", json=body)).is_success
        changed = await admin.put("/v1/tenants/acme/limits", json={"files": 0, "file_bytes": 7})
        assert (await tenant.post("/v1/episodes", json=body)).is_success
        assert (await tenant.post("/v1/chat/completions", json=chat)).is_success
        shown = (await tenant.get("/v1/limits")).json()
        reset = (await admin.delete("/v1/tenants/acme/limits")).json()
    quotas = [one.request.file_quota for one in gateway.episodes.episodes.values()]
    own = attachment_pb2.FileQuota(files=0, size_bytes=7)
    assert quotas == [attachment_pb2.FileQuota(), own, own]
    assert (changed.json(), shown["files"], shown["file_bytes"]) == (shown, 0, 7)
    assert reset["files"] is None is reset["file_bytes"]
