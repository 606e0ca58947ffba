"""Model servers of the platform's own, which run only while they are asked."""

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest
import pytest_asyncio
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

from embedded_servers import Database
from integration.tool_adapters.adapters_under_test import (
    AdaptersUnderTest,
    run_adapters,
    running_registry,
)
from integration.tool_adapters.test_llm_tools import counted, serving
from integration.tool_adapters.tool_specs import llm_spec, tool_limits
from openai_server import Reply
from podium.common.v1 import failure_pb2
from podium_kit import telemetry
from podium_kit.embedded.ports import free_port

HOST = "127.0.0.1"


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> InMemoryMetricReader:
    reader = InMemoryMetricReader()
    monkeypatch.setattr(telemetry, "get_meter", MeterProvider([reader]).get_meter)
    return reader


@pytest_asyncio.fixture
async def adapters(
    database: Database, tmp_path: Path, metrics: InMemoryMetricReader
) -> AsyncIterator[AdaptersUnderTest]:
    async with (
        running_registry() as registry,
        run_adapters(
            await database("tool_adapters"), tmp_path, registry, own_servers={HOST}
        ) as running,
    ):
        yield running


def open_calls(metrics: InMemoryMetricReader) -> float | None:
    data = metrics.get_metrics_data()
    return next(
        (
            point.value
            for resource in (data.resource_metrics if data else [])
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == "podium.experts.calls.open"
            for point in metric.data.data_points
            if isinstance(point, NumberDataPoint)
            and (point.attributes or {})["server.address"] == HOST
        ),
        None,
    )


async def until_open(metrics: InMemoryMetricReader, calls: int) -> None:
    async with asyncio.timeout(60):
        while open_calls(metrics) != calls:
            await asyncio.sleep(0.01)


async def test_a_call_waits_until_a_server_runs(
    adapters: AdaptersUnderTest, metrics: InMemoryMetricReader
) -> None:
    assert open_calls(metrics) == 0
    port = free_port()
    tool = adapters.register(
        llm_spec(f"http://{HOST}:{port}/v1", limits=tool_limits(timeout_s=120))
    )
    calling = asyncio.create_task(adapters.call(tool))
    await until_open(metrics, 1)
    with serving("42", port=port) as server:
        answer = await calling
    assert (answer.output.content, answer.attempts, len(server.requests)) == ("42", 1, 1)
    assert open_calls(metrics) == 0


async def test_its_seconds_are_counted_beside_its_tokens(adapters: AdaptersUnderTest) -> None:
    with serving("42") as server:
        used = counted(await adapters.call(adapters.register(llm_spec(server.base_url))))
    assert {"INPUT_FRESH", "OUTPUT_TEXT", "SECOND"} <= set(used)
    assert Decimal(0) < used["SECOND"] < 60


async def test_a_server_that_never_runs_fails_the_call_in_time_and_costs_nothing(
    adapters: AdaptersUnderTest, metrics: InMemoryMetricReader
) -> None:
    url = f"http://{HOST}:{free_port()}/v1"
    answer = await adapters.call(adapters.register(llm_spec(url, limits=tool_limits(timeout_s=2))))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_TIMEOUT
    assert answer.unsent
    assert not answer.usage.quantities
    assert open_calls(metrics) == 0


async def test_a_server_that_runs_and_rejects_is_not_waited_for(
    adapters: AdaptersUnderTest,
) -> None:
    with serving(Reply("no such model", status=404)) as server:
        answer = await adapters.call(adapters.register(llm_spec(server.base_url)))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_NOT_FOUND
    assert len(server.requests) == 1


async def test_other_servers_are_not_counted_by_the_second(adapters: AdaptersUnderTest) -> None:
    with serving("42") as server:
        elsewhere = server.base_url.replace(HOST, "localhost")
        used = counted(await adapters.call(adapters.register(llm_spec(elsewhere))))
    assert "SECOND" not in used
