import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from integration.tool_adapters.adapters_under_test import AdaptersUnderTest
from integration.tool_adapters.tool_specs import define_server, mcp_spec
from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium.common.v1 import failure_pb2
from podium.registry.v1 import tool_pb2
from podium_kit.bundled_files import bundled_folder
from podium_kit.rpc.identity import Scope
from process_owner import Processes

Servers = Callable[[], list[psutil.Process]]
DISCOVERY = pb.DiscoverMcpToolsRequest(
    connection=tool_pb2.McpConnection(stdio=tool_pb2.McpStdio(server="tau2-mock")),
    name_prefix="board_",
)


async def discovered(adapters: AdaptersUnderTest) -> pb.DiscoverMcpToolsResponse:
    shutil.copytree(bundled_folder() / "mcp_servers", adapters.mcp_servers, dirs_exist_ok=True)
    async with adapters.as_caller(scope=Scope.PLATFORM_ADMIN) as operator:
        return await operator.DiscoverMcpTools(DISCOVERY)


async def import_board(adapters: AdaptersUnderTest) -> None:
    for spec in (await discovered(adapters)).specs:
        adapters.register(spec)


def task_ids(answer: pb.InvokeResponse) -> list[str]:
    content = json.loads(answer.output.content)["parsed_content"]
    return [task for user in content for task in user["tasks"]]


@pytest.fixture
def servers(own_processes: Processes) -> Servers:
    def running() -> list[psutil.Process]:
        found = own_processes("tau2-mock-mcp-eval")
        return [process for process in found if process.name() != "bwrap"]

    return running


async def test_a_servers_tools_are_listed_ready_to_register(
    adapters: AdaptersUnderTest, servers: Servers
) -> None:
    found = await discovered(adapters)
    assert found.server_name == "tau2-mock-mcp-eval 0.4.0"
    specs = {spec.name: spec for spec in found.specs}
    assert {"board_create_task", "board_get_users", "board_update_task_status"} <= specs.keys()
    spec = specs["board_create_task"]
    assert spec.kind == tool_pb2.TOOL_KIND_MCP
    assert spec.side_effect == tool_pb2.SIDE_EFFECT_EFFECTFUL
    assert spec.connection.mcp.tool_name == "create_task"
    assert json.loads(spec.parameters_json_schema)["required"] == ["user_id", "title"]
    assert not servers()


async def test_a_server_keeps_its_state_per_episode(
    adapters: AdaptersUnderTest, servers: Servers
) -> None:
    await import_board(adapters)
    task = {"user_id": "user_1", "title": "Buy tea"}
    created = await adapters.call("board_create_task", task, episode_id="one")
    assert json.loads(created.output.content_json)["ok"] is True
    users_of_one = await adapters.call("board_get_users", episode_id="one")
    users_of_two = await adapters.call("board_get_users", episode_id="two")
    assert task_ids(users_of_one) == ["task_1", "task_2"]
    assert task_ids(users_of_two) == ["task_1"]
    assert len(servers()) == 2


async def test_closing_an_episode_ends_its_servers_only(
    adapters: AdaptersUnderTest, servers: Servers
) -> None:
    await import_board(adapters)
    await adapters.call("board_get_users", episode_id="one")
    first = {process.pid for process in servers()}
    await adapters.call("board_get_users", episode_id="two")
    async with adapters.as_caller(tenant="other") as stranger:
        await stranger.CloseEpisode(pb.CloseEpisodeRequest(episode_id="two"))
    await adapters.stub.CloseEpisode(pb.CloseEpisodeRequest(episode_id="one"))
    left = {process.pid for process in servers()}
    assert len(left) == 1
    assert not left & first


async def test_what_the_server_calls_an_error_is_a_failure(adapters: AdaptersUnderTest) -> None:
    await import_board(adapters)
    answer = await adapters.call("board_create_task", {"user_id": "nobody", "title": "x"})
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_TOOL_ERROR
    assert "User nobody not found" in answer.failure.message


async def test_a_server_that_died_is_started_again(
    adapters: AdaptersUnderTest, servers: Servers
) -> None:
    await import_board(adapters)
    await adapters.call("board_get_users")
    (process,) = servers()
    process.kill()
    process.wait()
    lost = await adapters.call("board_get_users")
    assert lost.failure.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE
    assert "is lost" in lost.failure.message
    assert task_ids(await adapters.call("board_get_users")) == ["task_1"]


async def test_a_server_sees_none_of_our_environment(
    adapters: AdaptersUnderTest, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOL_ADAPTERS_DATABASE_URL", "postgresql://owner:password@db/adapters")
    await import_board(adapters)
    await adapters.call("board_get_users")
    (process,) = servers()
    assert process.environ() == {
        "PATH": str(Path(sys.executable).parent),
        "HOME": "/workspace",
        "TMPDIR": "/workspace",
        "LANG": "C.UTF-8",
        "PWD": "/workspace",
        "TAU2_MOCK_MCP_STATE_DIR": "state",
    }


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("-c", "raise SystemExit('no licence file')"), "no licence file"),
        (("-c", "print('hello')"), "failed"),
    ],
)
async def test_a_program_that_is_no_server_is_rejected_with_the_reason(
    adapters: AdaptersUnderTest, args: tuple[str, ...], words: str
) -> None:
    define_server(adapters.mcp_servers, "wrong", *args)
    answer = await adapters.call(adapters.register(mcp_spec("tool", "wrong")))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_UNAVAILABLE
    assert words in answer.failure.message


async def test_a_secret_reaches_the_server_it_is_for(
    adapters: AdaptersUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOL_ADAPTERS_SECRET_BOARD", "s3cr3t-value")
    complaint = "import os; raise SystemExit('bad token ' + os.environ['BOARD_TOKEN'])"
    secret_env = {"BOARD_TOKEN": "board"}
    define_server(adapters.mcp_servers, "guarded", "-c", complaint, secret_env=secret_env)
    answer = await adapters.call(adapters.register(mcp_spec("tool", "guarded")))
    assert "bad token [secret]" in answer.failure.message
    # A tenant's tool of the same server gets the tenant's own, which is not there.
    own = await adapters.call(adapters.register(mcp_spec("own", "guarded"), shared=False))
    assert "s3cr3t" not in own.failure.message and "bad token" not in own.failure.message
