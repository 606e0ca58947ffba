"""The platform on one machine: its keys, its engine, its supervision."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from embedded_servers import Database
from gateway.config import DatabaseSettings
from gateway.keys.models import KeyRequest
from gateway.keys.offline import api_keys
from integration.gateway.gateway_under_test import Gateway, run_gateway
from openai_server import OpenAiServer
from podium_kit.client.errors import UserError
from podium_kit.client.rejections import Rejected
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.process import ManagedProcess
from podium_kit.rpc.identity import Identity, Role, acting_as
from podium_operations.local import engines
from podium_operations.local.engines import EngineChoice, check_engine
from podium_operations.local.keys import PLATFORM_TENANT, TENANT, LocalKeys, ensure_api_keys
from podium_operations.local.retries import RetryingGateway
from podium_operations.local.state import StateFolder
from podium_operations.local.supervision import PAUSE_MAX_S, Supervisor, pause_after


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateFolder]:
    state = StateFolder(tmp_path / "state").acquire()
    yield state
    state.release()


async def test_the_users_key_neither_sees_nor_rotates_nor_revokes_the_platform_admins(
    database: Database, state: StateFolder, tmp_path: Path
) -> None:
    async with run_gateway(url := await database("gateway"), tmp_path) as gateway:
        keys = await ensure_api_keys(state, gateway.base_url, url)
        await assert_out_of_reach(gateway, keys)
        assert await ensure_api_keys(state, gateway.base_url, url) == keys


async def test_a_platform_admin_that_shares_the_users_tenant_is_replaced_at_the_next_start(
    database: Database, state: StateFolder, tmp_path: Path
) -> None:
    async with run_gateway(url := await database("gateway"), tmp_path) as gateway:
        old = LocalKeys(
            tenant=await issue(url, Role.TENANT_ADMIN),
            platform=await issue(url, Role.PLATFORM_ADMIN),
        )
        state.api_keys_file.write_text(json.dumps(asdict(old)))
        keys = await ensure_api_keys(state, gateway.base_url, url)
        assert keys.platform != old.platform
        await assert_out_of_reach(gateway, keys)


async def issue(database_url: str, role: Role) -> str:
    """A key of the user's tenant, as `podium up` once made both."""
    async with api_keys(DatabaseSettings(database_url=database_url)) as issued:
        with acting_as(Identity(TENANT, "podium-up", frozenset())):
            return (await issued.issue(KeyRequest(TENANT, "podium-up", roles=frozenset({role}))))[1]


async def assert_out_of_reach(gateway: Gateway, keys: LocalKeys) -> None:
    key_id = keys.platform.split("_")[1]
    async with gateway.http(keys.tenant) as user:
        assert key_id not in (await user.get("/v1/api-keys")).text
        for verb in ("rotate", "revoke"):
            reply = await user.post(f"/v1/api-keys/{key_id}/{verb}", json={})
            assert reply.status_code == 404
    async with gateway.http(keys.platform) as admin:
        headers = {"x-podium-tenant": PLATFORM_TENANT}
        assert (await admin.get("/v1/api-keys", headers=headers)).status_code == 200


async def test_a_server_that_does_not_listen_yet_is_asked_again() -> None:
    port = free_port()
    choice = EngineChoice(openai_base_url=f"http://127.0.0.1:{port}/v1", model="scripted-model")
    noted: asyncio.Queue[str] = asyncio.Queue()
    check = asyncio.create_task(check_engine(choice, noted.put_nowait))
    assert f"waiting for the model server at http://127.0.0.1:{port}" in await noted.get()
    with OpenAiServer(port=port):
        await check
    assert noted.empty()


async def test_a_server_that_never_listens_is_named_with_the_fix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engines, "STARTING_S", 1.0)
    choice = EngineChoice(openai_base_url=f"http://127.0.0.1:{free_port()}/v1", model="m")
    with pytest.raises(UserError, match="no model server answered") as raised:
        await check_engine(choice, lambda _: None)
    assert "/v1" in raised.value.fix


AWAY = b'{"error": {"message": "a part of the platform does not answer"}}'
WRONG = b'{"error": {"message": "no such price"}}'


def sleeper(name: str, program: Path, folder: Path) -> ManagedProcess:
    argv = [str(program), "-c", "import time; time.sleep(600)"]
    return ManagedProcess(name, argv, log_path=folder / f"{name}.log")


async def until_running(process: ManagedProcess, but: int | None = None) -> int:
    while not process.running or process.pid == but or process.pid is None:
        await asyncio.sleep(0.01)
    return process.pid


async def test_a_process_that_cannot_be_started_is_tried_again_and_holds_up_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "python"
    processes = {
        "broken": sleeper("broken", program, tmp_path),
        "sound": sleeper("sound", Path(sys.executable), tmp_path),
    }

    async def revive(name: str) -> None:
        processes[name].start()

    supervision = asyncio.create_task(
        Supervisor(lambda: [n for n, p in processes.items() if not p.running], revive).run()
    )
    first = await until_running(processes["sound"])
    while caplog.text.count("broken could not be started again") < 2:
        await asyncio.sleep(0.01)
    await processes["sound"].kill()
    await until_running(processes["sound"], but=first)
    program.symlink_to(sys.executable)
    await until_running(processes["broken"])
    supervision.cancel()
    await asyncio.wait({supervision})
    for process in processes.values():
        await process.kill()
    assert "No such file" in caplog.text


def test_what_dies_again_and_again_waits_longer_each_time_up_to_a_bound() -> None:
    pauses = [pause_after(deaths) for deaths in range(1, 40)]
    assert pauses[:4] == [0.0, 0.5, 1.0, 2.0]
    assert pauses == sorted(pauses)
    assert pauses[-1] == PAUSE_MAX_S


async def answering(*replies: tuple[int, bytes]) -> AsyncIterator[str]:
    """The URL of a server that gives these answers, one to a request; closed by its last user."""
    left = list(replies)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        status, body = left.pop(0)
        head = f"HTTP/1.1 {status} Status\r\nconnection: close\r\ncontent-length: {len(body)}\r\n"
        writer.write(f"{head}\r\n".encode() + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_503_while_the_platform_is_filled_is_waited_for() -> None:
    async for url in answering((503, AWAY), (200, b'{"made": true}')):
        async with RetryingGateway(url, "key") as gateway:
            assert await gateway.call("GET", "/v1/prices") == {"made": True}


async def test_a_rejection_while_the_platform_is_filled_is_raised_at_once() -> None:
    async for url in answering((400, WRONG)):
        async with RetryingGateway(url, "key") as gateway:
            with pytest.raises(Rejected, match="no such price"):
                await gateway.call("GET", "/v1/prices")
