"""The expert pool as a process of its own, and orchestrators that always ask one of its experts."""

import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from google.protobuf import json_format

from openai_server import Body, OpenAiServer
from podium.registry.v1 import tool_pb2
from podium_kit.bundled_files import bundled_folder
from podium_kit.embedded.process import ManagedProcess
from podium_training.experts.pool import read_pool
from podium_training.tasks.task import Task

POOL = bundled_folder() / "experts.yaml"
TOOL = read_pool(POOL).tool
ALIASES = tuple(expert.alias for expert in read_pool(POOL).experts)
READY_TIMEOUT_S = 60.0


@asynccontextmanager
async def serving_experts(
    folder: Path, tasks: Sequence[Task], seed: int
) -> AsyncIterator[tool_pb2.ToolSpec]:
    """`python -m podium_training.experts` for those tasks; yields the tool."""
    task_file, tool_file = folder / "tasks.jsonl", folder / "tool.yaml"
    task_file.write_text("".join(f"{task.to_json()}\n" for task in tasks))
    argv: list[str | Path] = [sys.executable, "-m", "podium_training.experts", POOL, task_file]
    argv += ["--port", "0", "--seed", str(seed), "--write-tool", tool_file]
    process = ManagedProcess("experts", argv, log_path=folder / "experts.log")
    process.start()

    async def serving() -> bool:
        return "http://" in process.log_tail()

    try:
        await process.wait_ready(serving, timeout_s=READY_TIMEOUT_S)
        yield json_format.ParseDict(yaml.safe_load(tool_file.read_text()), tool_pb2.ToolSpec())
    finally:
        await process.terminate()


def always_asking(alias: str, model: str) -> OpenAiServer:
    """An orchestrator that asks that expert and passes its reply on."""
    call = {"tool": TOOL, "arguments": {"model": alias}}
    relayed = re.compile(rf'{TOOL} {{"model":"{alias}"}}\)?(?: ->|:) (.+)')

    def relay(body: Body) -> dict[str, str]:
        found = relayed.search(str(body["messages"][-1]["content"]))
        return {"answer": found[1] if found else ""}

    return OpenAiServer(script=[call, relay, relay], models=[model])
