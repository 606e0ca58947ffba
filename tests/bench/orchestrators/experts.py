import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from google.protobuf import json_format

from podium.registry.v1 import tool_pb2
from podium_kit.embedded.process import ManagedProcess
from podium_training.experts.pool import Pool
from podium_training.tasks.task import Task

READY_TIMEOUT_S = 60.0


@asynccontextmanager
async def serving_experts(
    folder: Path, pool: Pool, tasks: Sequence[Task], seed: int
) -> AsyncIterator[tool_pb2.ToolSpec]:
    """`python -m podium_training.experts` for those tasks; yields the tool."""
    pool_file, task_file, tool_file = (
        folder / name for name in ("experts.yaml", "tasks.jsonl", "tool.yaml")
    )
    pool_file.write_text(yaml.safe_dump(pool.model_dump(by_alias=True, mode="json")))
    task_file.write_text("".join(f"{task.to_json()}\n" for task in tasks))
    argv: list[str | Path] = [sys.executable, "-m", "podium_training.experts", pool_file, task_file]
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
