import asyncio
import os
import socket
from contextlib import closing
from pathlib import Path
from textwrap import dedent

import pytest

from builders.workspaces_in_memory import workspaces_in_memory
from tool_adapters.sandbox import Execution, Limits, LocalRunner, Sandbox, Sizes
from unit.tool_adapters.sandbox.attacks import (
    files,
    kernel,
    network,
    processes,
    resources,
    results,
    secrets,
)
from unit.tool_adapters.sandbox.attacks.attack import MIB, Attack

ATTACKS = [
    attack
    for module in (network, kernel, processes, secrets, files, resources, results)
    for attack in module.ATTACKS
]
CANARY = "canary-7f3a"


def small(wall_time_s: float = 20.0) -> Limits:
    return Limits(
        wall_time_s=wall_time_s,
        memory_bytes=512 * MIB,
        processes=16,
        entries=500,
        output_bytes=10_000,
        sizes=Sizes(workspace_bytes=8 * MIB, temporary_bytes=8 * MIB),
    )


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox(workspaces_in_memory(), LocalRunner())


async def run(sandbox: Sandbox, code: str) -> Execution:
    return await sandbox.run(dedent(code), small())


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
async def test_attack_ends_in_its_typed_outcome(
    sandbox: Sandbox, attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVIDER_API_KEY", CANARY)
    limits = small(attack.wall_time_s)
    if attack.stateful:
        execution = await sandbox.run_in_episode(attack.code, limits, "acme", "e1")
    else:
        execution = await sandbox.run(attack.code, limits)
    kind = execution.failure.kind if execution.failure else None
    assert kind is attack.failure, execution
    assert attack.said in execution.output, execution.output
    assert CANARY not in execution.output
    assert len(execution.stdout) <= limits.output_bytes
    if attack.stateful:
        # The episode continues in spite of what it left behind, and others do not see it.
        assert (await sandbox.run_in_episode("6 * 7", limits, "acme", "e1")).stdout == "42\n"
        other = await sandbox.run_in_episode("import os; os.listdir()", limits, "acme", "e2")
        assert other.stdout == "[]\n"


def test_the_suite_has_fifty_attacks_each_with_a_name_of_its_own() -> None:
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) >= 50


async def test_no_socket_of_the_host_is_reached(sandbox: Sandbox) -> None:
    name = f"\0podium-test-{os.getpid()}"
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(name)
        server.listen()
        code = f"import socket; socket.socket(socket.AF_UNIX).connect({name!r})"
        execution = await run(sandbox, code)
    assert "ConnectionRefusedError" in execution.output


async def test_a_file_of_the_machine_does_not_exist_inside(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text(CANARY)
    code = f"import os; print([os.path.exists(path) for path in ({__file__!r}, {str(secret)!r})])"
    assert (await run(sandbox, code)).output == "[False, False]\n"


async def test_only_plain_files_come_back(sandbox: Sandbox) -> None:
    links = next(each for each in files.ATTACKS if each.name.startswith("links and special"))
    execution = await run(sandbox, links.code + "open('honest.txt', 'w').write('mine')")
    assert [(file.name, file.data) for file in execution.files] == [("honest.txt", b"mine")]


async def test_a_daemon_cannot_add_to_the_answer(sandbox: Sandbox) -> None:
    daemon = next(each for each in processes.ATTACKS if each.name.startswith("a daemon"))
    assert (await run(sandbox, daemon.code)).files == ()


async def test_state_of_another_episode_forged_into_ones_own_changes_only_that(
    sandbox: Sandbox,
) -> None:
    await sandbox.run_in_episode("secret = 1", small(), "acme", "e1")
    forging = """
    import cloudpickle
    open(".variables.pickle", "wb").write(cloudpickle.dumps({"secret": cloudpickle.dumps(2)}))
    import os; os._exit(0)
    """
    await sandbox.run_in_episode(dedent(forging), small(), "acme", "e2")
    assert (await sandbox.run_in_episode("secret", small(), "acme", "e2")).stdout == "2\n"
    assert (await sandbox.run_in_episode("secret", small(), "acme", "e1")).stdout == "1\n"


async def test_runs_that_are_cancelled_while_they_start_are_all_killed(sandbox: Sandbox) -> None:
    running = [asyncio.create_task(run(sandbox, "import time; time.sleep(600)")) for _ in range(24)]
    for each in running:
        await asyncio.sleep(0.002)
        each.cancel()
    ended = await asyncio.gather(*running, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in ended)


@pytest.mark.parametrize("age_s", [0.001, 0.01, 0.03, 0.1, 0.3])
async def test_cancelled_run_is_killed_whatever_its_age(sandbox: Sandbox, age_s: float) -> None:
    running = asyncio.create_task(run(sandbox, "import time; time.sleep(600)"))
    await asyncio.sleep(age_s)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
