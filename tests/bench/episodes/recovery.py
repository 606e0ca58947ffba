import asyncio
import contextlib
import statistics
import time

from bench.capacity.replicas import WORKER, on_free_ports, running, service_with
from bench.episodes.product import Product, running_product
from bench.figures import Figures, say
from episodes.queue.lease_worker import LEASE_S

ROUNDS = 3
TURN_S = 0.2
TURNS = 200
LONG_CALL_S = 60.0
WORKER_STARTS_S = 5.0
BACK_AT_WORK_S = 6.0
TAKEN_OVER_S = 2.0
CANCELLED_S = 2.0


async def measure_recovery(figures: Figures) -> None:
    """Seconds from kill -9 of a worker to the next turn, by another or once it is started again,
    and from a cancel to a free model."""
    say("recovery")
    async with running_product(TURN_S, TURNS) as product:
        supervision = asyncio.create_task(product.platform.supervise())
        back = [await _seconds_back_at_work(product) for _ in range(ROUNDS)]
        supervision.cancel()
        await asyncio.wait({supervision})
    async with running_product(LONG_CALL_S, 1) as product:
        stopped = [await _seconds_to_cancel(product) for _ in range(ROUNDS)]
        taken_over = [await _seconds_to_another_worker(product) for _ in range(ROUNDS)]
    figures.note("recovery.taken_over_s", [round(value, 2) for value in taken_over])
    figures.ratio("episode.taken_over", max(taken_over) / TAKEN_OVER_S, "<=", 1)
    figures.note("recovery.worker_back_at_work_s", [round(value, 2) for value in back])
    figures.note("recovery.model_call_cancelled_s", [round(value, 2) for value in stopped])
    figures.ratio("episode.worker_back_at_work", max(back) / BACK_AT_WORK_S, "<=", 1)
    figures.ratio("episode.model_call_cancelled", statistics.fmean(stopped) / CANCELLED_S, "<=", 1)


async def _seconds_to_another_worker(product: Product) -> float:
    """From the kill in the middle of a model's call until another worker makes that call."""
    worker = product.platform.processes[WORKER]
    others = on_free_ports(service_with(product.platform, WORKER), 1)
    episode_id = await product.start()
    async with running(product.platform, others, None):
        # It judges others once it has been there for so long.
        await asyncio.sleep(LEASE_S)
        await _until(product, calls=1)
        await worker.kill()
        killed = time.perf_counter()
        await _until(product, calls=0)
        await _until(product, calls=1)
        seconds = time.perf_counter() - killed
        await product.cancel(episode_id)
        await _until(product, calls=0)
    worker.start()
    await asyncio.sleep(WORKER_STARTS_S)
    return seconds


async def _until(product: Product, calls: int) -> None:
    while await product.model_calls() != calls:
        await asyncio.sleep(0.01)


async def _seconds_back_at_work(product: Product) -> float:
    """From the kill in the middle of a turn to the first turn after it."""
    episode_id = await product.start()
    async with contextlib.aclosing(product.turns(episode_id)) as turns:
        for _ in range(3):
            await anext(turns)
        await product.platform.processes["episodes_worker"].kill()
        killed = time.perf_counter()
        await anext(turns)
        seconds = time.perf_counter() - killed
    await product.cancel(episode_id)
    return seconds


async def _seconds_to_cancel(product: Product) -> float:
    """From the cancel to the moment the model server has lost its caller."""
    episode_id = await product.start()
    while not await product.model_calls():
        await asyncio.sleep(0.02)
    asked = time.perf_counter()
    await product.cancel(episode_id)
    while await product.model_calls():
        await asyncio.sleep(0.01)
    return time.perf_counter() - asked
