import asyncio
import json
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from builders.tool_calls import tool_call, tool_definition
from podium_functions.errors import FunctionFailed
from podium_functions.table import FUNCTIONS
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.tool_kinds import FUNCTION
from tool_adapters.adapter import Output
from tool_adapters.functions import adapter
from tool_adapters.functions.adapter import (
    PROCESSES_PER_TENANT_MAX,
    FunctionAdapter,
    FunctionProcesses,
)
from tool_adapters.models import (
    FunctionConnection,
    JsonObject,
    ToolDefinition,
)

# Read at every border, which took seconds of a lock that all tenants share.
BORDERS = {"from_city": "in " * 26, "to_city": "in " * 26}
SUM: tuple[str, dict[str, Any]] = ("calculator", {"expression": "6*7"})


@pytest_asyncio.fixture
async def functions() -> AsyncIterator[FunctionProcesses]:
    found = FunctionProcesses()
    yield found
    await found.close()


def test_a_city_is_not_looked_for_at_every_border(monkeypatch: pytest.MonkeyPatch) -> None:
    from podium_functions import cities  # noqa: PLC0415

    looks, search = 0, cities._nicknamed

    def counted(city: str) -> Any:
        nonlocal looks
        looks += 1
        return search(city)

    monkeypatch.setattr(cities, "_nicknamed", counted)
    for name in ("in " * 26, "in,in," * 13, "ma us " * 13):
        with pytest.raises(FunctionFailed):
            FUNCTIONS["city_facts"]({"city": name})
    assert looks <= 3 * (cities.READINGS_MAX + 1)


@pytest.mark.parametrize("name", ["Paris, Texas", "Paris in France", "Springfield, Illinois"])
def test_a_city_is_still_found_in_its_place(name: str) -> None:
    assert FUNCTIONS["city_facts"]({"city": name})


async def test_one_tenants_flood_leaves_a_process_to_another(
    functions: FunctionProcesses,
) -> None:
    async def flood() -> None:
        with pytest.raises(FunctionFailed):
            await functions.call("evil", "city_distance", BORDERS)

    calls = [asyncio.create_task(flood()) for _ in range(20)]
    await asyncio.sleep(0)
    assert await functions.call("bank", *SUM) == 42
    # Whatever the flood took by then, it has not ended.
    assert sum(call.done() for call in calls) < len(calls)
    await asyncio.gather(*calls)
    assert functions._started <= PROCESSES_PER_TENANT_MAX + 1


async def test_a_call_that_is_cut_off_takes_its_process_along(
    functions: FunctionProcesses,
) -> None:
    await functions.call("evil", *SUM)
    call = asyncio.create_task(functions.call("evil", "city_distance", BORDERS))
    while not functions._ready.empty():
        await asyncio.sleep(0)
    call.cancel()
    await asyncio.wait({call})
    assert functions._started == 0
    assert await functions.call("bank", *SUM) == 42


async def test_a_function_has_its_time(
    functions: FunctionProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "CALL_TIMEOUT_S", 0.0)
    with pytest.raises(FunctionFailed, match="took longer") as failed:
        await functions.call("evil", "city_distance", BORDERS)
    assert failed.value.failure.kind is FailureKind.LIMIT_EXCEEDED
    monkeypatch.undo()
    assert await functions.call("evil", *SUM) == 42


async def test_a_process_that_died_is_replaced(functions: FunctionProcesses) -> None:
    await functions.call("bank", *SUM)
    process = functions._ready.get_nowait()
    assert isinstance(process, Process)
    process.kill()
    await process.wait()
    functions._ready.put_nowait(process)
    assert await functions.call("bank", *SUM) == 42


async def test_no_call_waits_for_the_start_of_a_process_while_another_is_ready(
    functions: FunctionProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    await functions.call("evil", *SUM)
    never = asyncio.Event()

    async def hangs(*_: object) -> Process:
        await never.wait()
        raise AssertionError

    monkeypatch.setattr(adapter, "start", hangs)
    calls = [functions.call(tenant, *SUM) for tenant in ("evil", "bank", "evil", "bank")]
    assert await asyncio.gather(*calls) == [42] * 4


async def test_a_call_gets_the_error_of_a_process_that_cannot_be_started(
    functions: FunctionProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> Process:
        raise MemoryError

    async def lacks(*_: object) -> Process:
        raise OSError("too many files")

    monkeypatch.setattr(adapter, "start", lacks)
    with pytest.raises(OSError, match="too many files"):
        await functions.call("bank", *SUM)
    monkeypatch.setattr(adapter, "start", fails)
    with pytest.raises(MemoryError):
        await functions.call("bank", *SUM)
    monkeypatch.undo()
    assert await functions.call("bank", *SUM) == 42


def make_tool(function: str) -> ToolDefinition:
    return tool_definition(function, FUNCTION, FunctionConnection(function))


async def invoke(function: str, arguments: JsonObject) -> Output | ToolFailure:
    call = tool_call(function, arguments)
    adapter = FunctionAdapter()
    try:
        return (await adapter.invoke(call, make_tool(function))).outcome
    finally:
        await adapter.close()


async def test_answer_is_json() -> None:
    outcome = await invoke("country_facts", {"country": "Iceland"})
    assert isinstance(outcome, Output)
    assert json.loads(outcome.content_json)["capital"] == "Reykjavik"


async def test_failure_is_a_value() -> None:
    outcome = await invoke("calculator", {"expression": "1 / 0"})
    assert outcome == ToolFailure(FailureKind.TOOL_ERROR, "'1 / 0' divides by zero")


async def test_unknown_function_is_named() -> None:
    outcome = await invoke("teleport", {})
    assert isinstance(outcome, ToolFailure)
    assert outcome.kind is FailureKind.NOT_FOUND
    assert "calculator" in outcome.message
