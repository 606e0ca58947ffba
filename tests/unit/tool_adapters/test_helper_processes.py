import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest
import yaml

from podium_functions import sql, sql_reader
from podium_kit.helper_processes import end, exchange
from tool_adapters.corpus import index_builder, passages, pdf_reader, service
from tool_adapters.functions import worker
from tool_adapters.functions.adapter import PROCESSES_MAX, FunctionAdapter


async def program(code: str) -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code), stdin=PIPE, stdout=PIPE, start_new_session=True
    )


async def output_of(code: str, data: bytes = b"", most: int = 1_000_000) -> bytes | None:
    process = await program(code)
    try:
        return await exchange(process, data, most)
    finally:
        await end(process)


async def test_output_without_end_is_not_kept() -> None:
    flood = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    assert await output_of(flood) is None


async def test_a_process_may_write_before_it_has_read_and_leave_input_unread() -> None:
    echo = "import sys; print('x' * 500_000); print(len(sys.stdin.read()))"
    assert await output_of(echo, b"y" * 500_000) == b"x" * 500_000 + b"\n500000\n"
    assert await output_of("print(1)", b"y" * 5_000_000) == b"1\n"
    assert await output_of("print(1); raise SystemExit(3)") is None


async def test_a_query_that_is_cancelled_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Process] = []
    running = asyncio.Event()

    async def noted(process: Process, *_: object) -> bytes:
        started.append(process)
        running.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(sql, "exchange", noted)
    adapter = FunctionAdapter()
    call = asyncio.create_task(adapter._answer("acme", "query_database", {"sql": "SELECT 1"}))
    await running.wait()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert started[0].returncode is not None


ROOT = Path(__file__).parents[3]
VALUES = ROOT / "charts" / "podium" / "values.yaml"
QUERY_TOOL = ROOT / "bundled" / "tools" / "query_database.yaml"
GIB = 1024**3
# Of the service itself, besides the indexes that it keeps.
SERVICE_BYTES = GIB


def queries_at_once() -> int:
    spec = yaml.safe_load(QUERY_TOOL.read_text())
    return int(spec["limits"]["maxConcurrency"])


def test_the_limit_covers_every_helper_at_once() -> None:
    needed = SERVICE_BYTES + service.INDEX_BYTES_KEPT
    needed += PROCESSES_MAX * worker.MEMORY_BYTES_MAX
    needed += passages.READERS.count * pdf_reader.MEMORY_BYTES_MAX
    needed += service.INDEXERS.count * index_builder.MEMORY_BYTES_MAX
    needed += queries_at_once() * sql_reader.MEMORY_BYTES_MAX
    values = yaml.safe_load(VALUES.read_text())
    limit = values["components"]["tool-adapters"]["resources"]["limits"]["memory"]
    assert limit.endswith("Gi")
    assert needed <= int(limit.removesuffix("Gi")) * GIB
