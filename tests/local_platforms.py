from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from podium_cli.up.running import fill
from podium_operations.local.engines import EngineChoice
from podium_operations.local.platform import LocalPlatform, PlatformOptions
from podium_operations.local.state import Connection


def quiet(_step: str, _done: bool) -> None: ...


@asynccontextmanager
async def local_platform(
    folder: Path, model_url: str, model: str, **options: Any
) -> AsyncIterator[tuple[LocalPlatform, Connection]]:
    """Runs a platform over a model server, as `podium up` starts and fills it."""
    chosen = {
        name: options.pop(name) for name in ("prompt_mode", "policy_store") if name in options
    }
    engine = EngineChoice(openai_base_url=model_url, model=model, **chosen)
    platform = LocalPlatform(PlatformOptions(folder / "state", engine, **options), quiet)
    await platform.start()
    try:
        yield platform, await fill(platform, quiet)
    finally:
        await platform.stop()
