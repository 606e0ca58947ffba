import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

CLIENT = Path(__file__).parents[2] / "sdks" / "typescript"
MISSING = "the TypeScript client's tests: they need node 20 or later with npm"
INSTALL = ("npm", "ci", "--silent", "--no-audit", "--no-fund")


def available() -> bool:
    return shutil.which("npm") is not None


async def build() -> None:
    lock, installed = CLIENT / "package-lock.json", CLIENT / "node_modules/.package-lock.json"
    if not installed.is_file() or installed.stat().st_mtime < lock.stat().st_mtime:
        await run(*INSTALL)
    await run("npm", "run", "--silent", "build")


async def run(*command: str, env: Mapping[str, str] | None = None) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=CLIENT,
        env={**os.environ, **(env or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    return said.decode()
