import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from bench.episodes.model_server import MODEL
from bench.figures import say
from bench.gateway.load import listens
from clients.environments import run
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.process import ManagedProcess

ENVIRONMENT = Path("build/bench/litellm")
PYTHON = ENVIRONMENT / "bin" / "python"
KEY = "sk-bench"
START_TIMEOUT_S = 180.0


@dataclass(frozen=True)
class Proxy:
    base_url: str
    pid: int
    version: str


async def install() -> None:
    done = ENVIRONMENT / "installed"
    if done.exists():
        return
    say("installing LiteLLM")
    uv = str(Path(sys.executable).parent / "uv")
    await run(uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(ENVIRONMENT))
    await run(uv, "pip", "install", "--quiet", "--python", str(PYTHON), "litellm[proxy]")
    done.touch()


@asynccontextmanager
async def running_proxy(model_url: str) -> AsyncIterator[Proxy]:
    """One worker, a key, no database: so it keeps no budget and no log of spending."""
    await install()
    with TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        config = folder / "config.yaml"
        config.write_text(yaml.safe_dump(_config(model_url)))
        command = [
            str((ENVIRONMENT / "bin" / "litellm").resolve()),
            *("--config", str(config), "--host", "127.0.0.1", "--port", str(port)),
            *("--num_workers", "1", "--telemetry", "False"),
        ]
        process = ManagedProcess(
            "litellm",
            command,
            log_path=folder / "log",
            env={
                "PATH": os.environ["PATH"],
                "HOME": name,
                # Else it asks the network for prices.
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "LITELLM_LOG": "ERROR",
            },
        )
        process.start()
        try:
            await process.wait_ready(partial(listens, port), START_TIMEOUT_S)
            yield Proxy(f"http://127.0.0.1:{port}/v1", process.pid or 0, _version())
        finally:
            await process.terminate()


def _config(model_url: str) -> dict[str, object]:
    params = {"model": f"openai/{MODEL}", "api_base": model_url, "api_key": "none"}
    return {
        "model_list": [{"model_name": MODEL, "litellm_params": params}],
        "general_settings": {"master_key": KEY},
        "litellm_settings": {"num_retries": 0},
    }


def _version() -> str:
    [found] = ENVIRONMENT.glob("lib/python*/site-packages/litellm-*.dist-info")
    return found.name.removeprefix("litellm-").removesuffix(".dist-info")
