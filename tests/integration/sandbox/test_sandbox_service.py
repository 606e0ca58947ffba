import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
import pytest_asyncio

from builders.tool_calls import tool_call, tool_definition
from builders.workspaces_in_memory import workspaces_in_memory
from callers import (
    KeyPair,
    client_channel,
    make_identity,
    make_key_pair,
    write_verify_keys,
)
from podium.adapters.v1 import sandbox_service_pb2 as pb
from podium.adapters.v1.sandbox_service_pb2_grpc import SandboxServiceStub
from podium_kit.failures import FailureKind
from podium_kit.rpc.errors import DependencyAway, InternalError
from podium_kit.rpc.identity import Identity, Scope
from podium_kit.rpc.server import running_server
from podium_kit.tool_kinds import CODE
from process_owner import Processes
from tool_adapters.adapter import Output, ToolCall
from tool_adapters.calls.attempts import Attempts, CallProgress
from tool_adapters.code.adapter import CodeAdapter
from tool_adapters.models import CodeConnection, SideEffect
from tool_adapters.sandbox import Limits, Sandbox, SandboxBroken
from tool_adapters.sandbox.clients import RemoteRunner
from tool_adapters.sandbox.config import SandboxSettings
from tool_adapters.sandbox.killing import kill_tree
from tool_adapters.sandbox.sandbox import Job
from tool_adapters.sandbox.server import assembled

RUNNER = make_identity("acme", "worker", [Scope.EPISODES_RUN])
TOOL = tool_definition(
    "code_interpreter", CODE, CodeConnection(stateful=True), side_effect=SideEffect.IDEMPOTENT
)


@dataclass(frozen=True)
class Service:
    port: int
    keys: KeyPair

    def channel(self, identity: Identity = RUNNER) -> grpc.aio.Channel:
        return client_channel(self.port, identity, self.keys)


@pytest_asyncio.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    keys = make_key_pair()
    settings = SandboxSettings(
        port=0,
        verify_keys_file=write_verify_keys(tmp_path / "keys.json", [keys]),
        warm_sandboxes=0,
        drain_grace_s=0.0,
    )
    async with (
        assembled(settings) as served,
        running_server(settings, *served) as port,
    ):
        yield Service(port, keys)


@pytest_asyncio.fixture
async def sandbox(service: Service) -> AsyncIterator[Sandbox]:
    async with service.channel() as channel:
        yield Sandbox(workspaces_in_memory(), RemoteRunner(channel))


def make_call(code: str) -> ToolCall:
    return tool_call("code_interpreter", {"code": code})


async def test_output_files_and_failures_arrive_as_they_left(sandbox: Sandbox) -> None:
    code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nopen('a.csv', 'w').write('1')"
    execution = await sandbox.run(code, Limits())
    assert (execution.stdout, execution.stderr) == ("out\n1\n", "err\n")
    assert [(file.name, file.media_type, file.data) for file in execution.files] == [
        ("a.csv", "text/csv", b"1")
    ]
    assert execution.failure is None
    assert execution.duration_s > 0
    failed = await sandbox.run("1 / 0", Limits())
    assert failed.failure is not None
    assert failed.failure.kind is FailureKind.TOOL_ERROR
    assert "ZeroDivisionError" in failed.failure.message


async def test_an_episode_keeps_its_state_and_the_service_nothing(sandbox: Sandbox) -> None:
    await sandbox.run_in_episode("x = 5; open('f', 'w').write('7')", Limits(), "acme", "e1")
    again = await sandbox.run_in_episode("print(x, open('f').read())", Limits(), "acme", "e1")
    assert again.output == "5 7\n"
    other = await sandbox.run_in_episode("x", Limits(), "acme", "e2")
    assert "NameError" in other.output
    await sandbox.close_episode("acme", "e1")
    assert "NameError" in (await sandbox.run_in_episode("x", Limits(), "acme", "e1")).output


async def test_a_full_workspace_travels_there_and_back(sandbox: Sandbox) -> None:
    code = """
import os
for number in range(15):
    open(f"{number}.bin", "wb").write(os.urandom(2 * 1024 ** 2))
"""
    filled = await sandbox.run_in_episode(code, Limits(), "acme", "e1")
    assert len(filled.files) == 8
    assert len(filled.left_out) == 7
    sizes = "import glob, os; sum(map(os.path.getsize, glob.glob('*.bin')))"
    again = await sandbox.run_in_episode(sizes, Limits(), "acme", "e1")
    assert again.output == f"{15 * 2 * 1024**2}\n"


async def test_the_code_adapter_works_with_it(sandbox: Sandbox) -> None:
    adapter = await CodeAdapter.start(sandbox)
    result = await adapter.invoke(make_call("6 * 7"), TOOL)
    assert isinstance(result.outcome, Output)
    assert result.outcome.content == "42\n"


async def test_while_no_pod_answers_the_call_waits_and_is_no_answer(service: Service) -> None:
    nowhere = client_channel(1, RUNNER, service.keys)
    async with nowhere:
        adapter = await CodeAdapter.start(Sandbox(workspaces_in_memory(), RemoteRunner(nowhere)))
        attempts = Attempts({CODE: adapter})
        with pytest.raises(DependencyAway):
            await attempts.make(CallProgress(make_call("1"), TOOL))


async def test_a_sandbox_that_is_killed_is_our_fault_and_no_answer(
    sandbox: Sandbox, own_processes: Processes
) -> None:
    attempts = Attempts({CODE: await CodeAdapter.start(sandbox)})
    call = make_call("import time; time.sleep(600)")
    running = asyncio.create_task(attempts.make(CallProgress(call, TOOL)))
    while not own_processes("bwrap"):
        assert not running.done(), running
        await asyncio.sleep(0.02)
    while not running.done():
        # As a whole: code whose launcher alone is killed at its start runs on, and reports.
        for process in own_processes("bwrap"):
            await kill_tree(process.pid)
        await asyncio.sleep(0.02)
    # Of the kind that the episode worker repeats, but not without end.
    with pytest.raises(InternalError):
        await running


async def test_a_cancelled_call_ends_its_code(sandbox: Sandbox, own_processes: Processes) -> None:
    running = asyncio.create_task(sandbox.run("import time; time.sleep(600)", Limits()))
    while not own_processes("bwrap"):
        assert not running.done(), running
        await asyncio.sleep(0.02)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    while own_processes("bwrap"):
        await asyncio.sleep(0.02)


async def test_a_wrong_state_is_rejected_without_being_opened_here(service: Service) -> None:
    async with service.channel() as channel:
        request = pb.RunCodeRequest(
            code="1", stateful=True, state=b"garbage", memory_bytes=2**30, output_bytes=1000
        )
        request.wall_time.FromSeconds(5)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await SandboxServiceStub(channel).RunCode(request)
    assert error.value.code() is grpc.StatusCode.INTERNAL


async def test_limits_are_not_left_open(service: Service) -> None:
    unlimited = pb.RunCodeRequest(code="1", memory_bytes=2**30, output_bytes=1000)
    negative = pb.RunCodeRequest(code="1", memory_bytes=-1, output_bytes=1000)
    negative.wall_time.FromSeconds(5)
    async with service.channel() as channel:
        for request in (unlimited, negative):
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await SandboxServiceStub(channel).RunCode(request)
            assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_only_who_may_run_episodes_runs_code(service: Service) -> None:
    stranger = make_identity("acme", "eve", [Scope.SPEND_READ])
    async with service.channel(stranger) as channel:
        with pytest.raises(SandboxBroken, match="scope"):
            await RemoteRunner(channel).run(Job("1", False, Limits()))
