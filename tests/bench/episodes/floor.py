import asyncio
import sys
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from temporalio.client import Client

from bench.episodes.floor_worker import TASK_QUEUE, Floor, FloorInput
from bench.figures import Load
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.process import ManagedProcess
from podium_kit.embedded.temporal import EmbeddedTemporal


class TemporalFloor:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def run(self, floor: FloorInput) -> float:
        started = time.perf_counter()
        await self._client.execute_workflow(
            Floor.run, floor, id=f"floor-{uuid.uuid4()}", task_queue=TASK_QUEUE
        )
        return time.perf_counter() - started

    async def load(self, floor: FloorInput, concurrent: int, total: int) -> Load:
        seconds: list[float] = []
        gate = asyncio.Semaphore(concurrent)

        async def one() -> None:
            async with gate:
                seconds.append(await self.run(floor))

        started = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(total)))
        return Load.of(concurrent, seconds, time.perf_counter() - started, 0)


@asynccontextmanager
async def running_floor() -> AsyncIterator[TemporalFloor]:
    with TemporaryDirectory(prefix="podium-bench-") as folder:
        temporal = EmbeddedTemporal(Path(folder), free_port())
        await temporal.start()
        worker = ManagedProcess(
            "floor worker",
            [sys.executable, "-m", "bench.episodes.floor_worker", temporal.target],
            log_path=Path(folder) / "worker.log",
        )
        worker.start()
        try:
            yield TemporalFloor(await Client.connect(temporal.target))
        finally:
            await worker.terminate()
            await temporal.stop()
