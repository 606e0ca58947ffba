"""Calls with effects happen once, whatever their caller, the database or a process does."""

import asyncio
import json
from pathlib import Path
from typing import Any

import asyncpg
import grpc
import pytest

from embedded_servers import Database
from integration.misbehaviour.database_wire import database_wire
from integration.misbehaviour.faults import Fault
from integration.tool_adapters.adapters_under_test import (
    AdaptersUnderTest,
    run_adapters,
    running_registry,
)
from integration.tool_adapters.servers import WebServer
from integration.tool_adapters.tool_specs import http_spec, tool_limits
from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.common.v1 import failure_pb2
from podium.registry.v1 import tool_pb2
from podium_kit.postgres.engine import DatabaseUnavailable
from tool_adapters.calls import effects
from tool_adapters.calls.effects import Claim
from tool_adapters.calls.store_effects import PostgresEffectStore

EFFECTFUL = tool_pb2.SIDE_EFFECT_EFFECTFUL


async def test_the_same_key_returns_the_first_answer(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    name = adapters.register(http_spec(f"{web.url}/echo/order", side_effect=EFFECTFUL))
    first = await adapters.call(name, {"item": "tea"}, key="e/1/tool/0")
    second = await adapters.call(name, {"item": "tea"}, key="e/1/tool/0")
    assert second == first
    assert web.requests["/echo/order"] == 1


async def test_the_same_key_with_other_content_is_rejected(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    name = adapters.register(http_spec(f"{web.url}/echo/order", side_effect=EFFECTFUL))
    await adapters.call(name, {"item": "tea"}, key="e/1/tool/0")
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await adapters.call(name, {"item": "milk"}, key="e/1/tool/0")
    assert error.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert web.requests["/echo/order"] == 1


async def test_two_tenants_may_use_the_same_key(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    name = adapters.register(http_spec(f"{web.url}/echo/order", side_effect=EFFECTFUL))
    await adapters.call(name, {"item": "tea"}, key="e/1/tool/0")
    request = pb.InvokeRequest(
        key="e/1/tool/0",
        episode_id="e",
        tool_name=name,
        tool_version=1,
        arguments_json=json.dumps({"item": "milk"}),
    )
    async with adapters.as_caller(tenant="other") as other:
        assert (await other.Invoke(request)).HasField("output")
    assert web.requests["/echo/order"] == 2


async def test_a_repetition_waits_for_the_call_that_runs(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    name = adapters.register(http_spec(f"{web.url}/slow/0.3", side_effect=EFFECTFUL))
    answers = await asyncio.gather(*(adapters.call(name, key="e/1/tool/0") for _ in range(5)))
    assert all(answer == answers[0] for answer in answers)
    assert answers[0].output.content == "at last"
    assert web.requests["/slow"] == 1


async def test_the_effect_of_a_cancelled_call_is_unknown(
    adapters: AdaptersUnderTest, web: WebServer
) -> None:
    spec = http_spec(f"{web.url}/slow/3600", side_effect=EFFECTFUL, limits=tool_limits(5))
    name = adapters.register(spec)
    running = asyncio.create_task(adapters.call(name, key="e/1/tool/0"))
    await web.until("in_flight", 1)
    running.cancel()
    await web.until("cancelled", 1)
    answer = await adapters.call(name, key="e/1/tool/0")
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_CANCELLED
    assert "whether it took effect is unknown" in answer.failure.message
    assert web.requests["/slow"] == 1


async def test_a_call_that_cannot_be_claimed_is_not_made_and_may_be_tried_again(
    database: Database, tmp_path: Path, web: WebServer
) -> None:
    async with (
        database_wire(await database("tool_adapters")) as wire,
        running_registry() as registry,
        run_adapters(wire.database_url, tmp_path, registry) as adapters,
    ):
        name = adapters.register(http_spec(f"{web.url}/echo/order", side_effect=EFFECTFUL))
        wire.fault = Fault.RESET
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await adapters.call(name, key="e/1/tool/0")
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE
        assert web.requests["/echo/order"] == 0
        wire.fault = None
        assert (await adapters.call(name, key="e/1/tool/0")).HasField("output")
    assert web.requests["/echo/order"] == 1


@pytest.mark.parametrize("caller_leaves", [False, True])
async def test_a_claim_whose_reply_was_lost_does_not_outlast_its_request(
    caller_leaves: bool,
    adapters: AdaptersUnderTest,
    web: WebServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    claim, stored = PostgresEffectStore.claim, asyncio.Event()

    async def claimed(store: PostgresEffectStore, *values: Any) -> Claim:
        made, is_first = await claim(store, *values), not stored.is_set()
        stored.set()
        if is_first and caller_leaves:
            await asyncio.Event().wait()
        if is_first:
            raise DatabaseUnavailable
        return made

    monkeypatch.setattr(PostgresEffectStore, "claim", claimed)
    name = adapters.register(http_spec(f"{web.url}/echo/order", side_effect=EFFECTFUL))
    running = asyncio.create_task(adapters.call(name, key="e/1/tool/0"))
    await stored.wait()
    if caller_leaves:
        running.cancel()
    await asyncio.wait({running})
    assert (await adapters.call(name, key="e/1/tool/0")).HasField("output")
    assert web.requests["/echo/order"] == 1


@pytest.mark.parametrize("caller_leaves", [False, True])
async def test_an_answer_that_the_database_did_not_take_is_stored_when_it_is_back(
    caller_leaves: bool,
    database: Database,
    tmp_path: Path,
    web: WebServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store_answer, failed = PostgresEffectStore.answer, asyncio.Event()
    async with (
        database_wire(await database("tool_adapters")) as wire,
        running_registry() as registry,
        run_adapters(wire.database_url, tmp_path, registry) as adapters,
    ):

        async def answer(store: PostgresEffectStore, *answer: Any) -> None:
            if not failed.is_set():
                wire.fault = Fault.RESET
            try:
                await store_answer(store, *answer)
            except DatabaseUnavailable:
                failed.set()
                raise

        monkeypatch.setattr(PostgresEffectStore, "answer", answer)
        name = adapters.register(http_spec(f"{web.url}/echo/order", side_effect=EFFECTFUL))
        running = asyncio.create_task(adapters.call(name, key="e/1/tool/0"))
        await failed.wait()
        if caller_leaves:
            running.cancel()
            await asyncio.wait({running})
        wire.fault = None
        again = await adapters.call(name, key="e/1/tool/0")
        assert again.HasField("output")
        assert caller_leaves or await running == again
    assert web.requests["/echo/order"] == 1


async def test_a_call_whose_process_has_ended_is_not_waited_for(
    database: Database, tmp_path: Path, web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effects, "LEFT_AFTER_S", 0.5)
    claim, waited = PostgresEffectStore.claim, asyncio.Event()

    async def claimed(store: PostgresEffectStore, *values: Any) -> Claim:
        found = await claim(store, *values)
        if found.answer is None and not found.is_new:
            waited.set()
        return found

    monkeypatch.setattr(PostgresEffectStore, "claim", claimed)
    url = await database("tool_adapters")
    rows = await asyncpg.connect(url.replace("+asyncpg", ""))
    limits = tool_limits(3600)
    async with running_registry() as registry, run_adapters(url, tmp_path, registry) as adapters:
        spec = http_spec(f"{web.url}/echo/order", side_effect=EFFECTFUL, limits=limits)
        name = adapters.register(spec)
        first = await adapters.call(name, key="e/1/tool/0")
        stored = await rows.fetchval("SELECT answer FROM effects")
        await rows.execute("UPDATE effects SET answer = NULL")
        again = asyncio.create_task(adapters.call(name, key="e/1/tool/0"))
        # Its process lives: it is waited for.
        await waited.wait()
        await rows.execute("UPDATE effects SET answer = $1", stored)
        assert await again == first
        await rows.execute("UPDATE effects SET answer = NULL, holder = 'ended'")
        answer = await adapters.call(name, key="e/1/tool/0")
    await rows.close()
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_CANCELLED
    assert web.requests["/echo/order"] == 1
