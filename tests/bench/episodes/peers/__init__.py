"""Other engines running the same episodes: same model server, same machine, same run."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.episodes.processor import processor_seconds
from bench.episodes.product import model_server
from clients.environments import run
from podium_kit.embedded.postgres import EmbeddedPostgres

FOLDER = Path("build/bench/peers")
DATABASE = "peer"


@dataclass(frozen=True)
class Peer:
    """A program of this folder, the packages that it needs, and whether it stores what it does."""

    name: str
    program: str
    packages: tuple[str, ...]
    stores: bool

    @property
    def python(self) -> Path:
        return FOLDER / self.program / "bin" / "python"

    async def install(self) -> None:
        done = FOLDER / self.program / "installed"
        if done.exists():
            return
        uv = str(Path(sys.executable).parent / "uv")
        folder = str(FOLDER / self.program)
        await run(uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder)
        await run(uv, "pip", "install", "--quiet", "--python", str(self.python), *self.packages)
        done.touch()


LANGGRAPH = ("langgraph", "langgraph-checkpoint-postgres", "psycopg[binary,pool]", "aiohttp")
PEERS = (
    Peer("LangGraph, no checkpoints", "with_langgraph.py", LANGGRAPH, stores=False),
    Peer("LangGraph, PostgreSQL", "with_langgraph.py", LANGGRAPH, stores=True),
    Peer("DBOS, asynchronous steps", "with_dbos.py", ("dbos", "aiohttp"), stores=True),
)


async def measure_peer(
    peer: Peer, delay_s: float, turns: int, plan: Mapping[int, int]
) -> dict[int, dict[str, float]]:
    await peer.install()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="podium-bench-")))
        origin = await stack.enter_async_context(model_server(folder, delay_s, turns))
        dsn, database = "", None
        if peer.stores:
            database = await stack.enter_async_context(_postgres(folder))
            dsn = (await database.create_database(DATABASE)).replace("+asyncpg", "")
        arguments = [f"{origin}/v1/chat/completions", dsn, json.dumps(plan)]
        program = Path(__file__).parent / peer.program
        process = await asyncio.create_subprocess_exec(
            str(peer.python), str(program), *arguments, stdout=asyncio.subprocess.PIPE
        )
        found: dict[int, dict[str, float]] = {}
        spent = _spent(database)
        async for line in _lines(process):
            figures = json.loads(line)
            concurrent = int(figures["concurrent"])
            # The run that warms up counts, too, in the database's share.
            episodes = concurrent + plan[concurrent]
            now = _spent(database)
            figures["processor_ms"] += 1000 * (now - spent) / episodes
            found[concurrent], spent = figures, now
        if await process.wait():
            raise RuntimeError(f"{peer.name} ended with status {process.returncode}")
    return found


def _spent(database: EmbeddedPostgres | None) -> float:
    pid = database.process.pid if database else None
    return processor_seconds([pid]) if pid else 0.0


async def _lines(process: asyncio.subprocess.Process) -> AsyncIterator[bytes]:
    if process.stdout is not None:
        async for line in process.stdout:
            if line.startswith(b"{"):
                yield line


@asynccontextmanager
async def _postgres(folder: Path) -> AsyncIterator[EmbeddedPostgres]:
    postgres = EmbeddedPostgres(folder / "postgres")
    await postgres.start()
    try:
        yield postgres
    finally:
        await postgres.stop()
