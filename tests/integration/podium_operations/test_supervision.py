import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from podium_kit.client.rejections import Rejected
from podium_kit.embedded.process import ManagedProcess
from podium_operations.local.retries import RetryingGateway
from podium_operations.local.supervision import PAUSE_MAX_S, Supervisor, pause_after

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
