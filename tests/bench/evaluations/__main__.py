"""`make bench-evaluations`: a run of many trials, many in flight, by a scripted model.

A trial is an episode of two model calls and one call of the calculator. Measured are trials a
second, the most memory that each process took, what a trial adds to the databases, and what the
lookup of its trial costs an episode that is none.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import asyncpg
import psutil
import uuid_utils

from bench.episodes.model_server import MODEL
from bench.episodes.processor import processor_seconds
from bench.episodes.product import model_server
from bench.figures import Figures, say
from episodes.workflows.settings import TemporalSettings
from local_platforms import local_platform
from podium.common.v1 import usage_pb2
from podium.episodes.v1 import check_pb2
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_evaluation.results.trials import read_results
from podium_evaluation.runs.names import budget_name, path_of
from podium_evaluation.runs.payloads import EvaluationRun
from podium_evaluation.runs.preparing import create
from podium_evaluation.runs.submission import start_evaluation
from podium_kit.client.gateway import Gateway
from podium_kit.embedded.process import ManagedProcess
from podium_operations.local.platform import LocalPlatform
from podium_operations.local.state import Connection
from podium_training.rollouts.settings import RolloutSettings
from podium_training.rollouts.submission import ended, open_temporal

# What one request may hold; more trials are repeats.
ITEMS_MAX = 5_000
MIB, KIB = 2**20, 2**10
QUEUE = "rollouts"
DATABASES = ("episodes", "cost_ledger")
LOOKUPS = 5_000
# As the statement that ends an episode finds its trial.
LOOKUP = "UPDATE evaluation_trials SET repeat = 0 WHERE episode_id = $1 AND end_time IS NULL"
NOTHING = "SELECT 1 WHERE $1 = '00000000-0000-0000-0000-000000000000'::uuid"


async def measure(count: int, at_once: int, figures: Figures) -> None:
    with TemporaryDirectory(prefix="podium-bench-") as folder:
        async with (
            model_server(Path(folder), delay_s=0.0, turns=2) as origin,
            local_platform(Path(folder), f"{origin}/v1", MODEL, telemetry=False) as found,
        ):
            platform, connection = found
            async with Gateway(connection.gateway_url, connection.admin_key) as admin:
                await admin.post("/v1/prices", prices(), prices_pb.CreatePricesResponse)
            async with Gateway(connection.gateway_url, connection.api_key) as gateway:
                before = await database_bytes(platform)
                memory_of: dict[str, int] = {}
                worker = worker_process(connection, Path(folder))
                worker.start()
                processes = {**platform.processes, "worker of evaluations": worker}
                sampling = asyncio.create_task(most_memory(processes, memory_of))
                try:
                    await play(gateway, connection, count, at_once, platform, figures)
                finally:
                    sampling.cancel()
                    await worker.terminate()
                for name, size in sorted(memory_of.items()):
                    figures.note(f"memory_mib.{name}", round(size / MIB))
                for name, size in (await database_bytes(platform)).items():
                    grown = (size - before[name]) / count / KIB
                    figures.note(f"database_kib_a_trial.{name}", round(grown, 1))
                figures.note("lookup_us", round(await lookup_us(platform), 1))


async def play(
    gateway: Gateway,
    connection: Connection,
    count: int,
    at_once: int,
    platform: LocalPlatform,
    figures: Figures,
) -> None:
    run = EvaluationRun(str(uuid_utils.uuid7()), count, at_once)
    began = time.monotonic()
    await create(gateway, evaluation(run.evaluation_id, count), Decimal(1_000))
    figures.note("plan_s", round(time.monotonic() - began, 1))
    settings = RolloutSettings(
        temporal_target=connection.temporal_target, temporal=TemporalSettings(**connection.temporal)
    )
    client = await open_temporal(settings, settings.temporal_target)
    pids = [each.pid for each in platform.processes.values() if each.pid]
    spent, began = processor_seconds(pids), time.monotonic()
    handle = await start_evaluation(client, QUEUE, run)
    following = asyncio.create_task(follow(gateway, run))
    await ended(handle)
    took = time.monotonic() - began
    following.cancel()
    figures.note("trials", count)
    figures.note("at_once", at_once)
    figures.note("trials_a_second", round(count / took, 1))
    figures.note("processor_ms_a_trial", round(1000 * (processor_seconds(pids) - spent) / count, 1))
    began = time.monotonic()
    results = await read_results(gateway, run.evaluation_id)
    figures.note("read_results_s", round(time.monotonic() - began, 1))
    right = sum(trial.score == 1 for trial in results.trials)
    charged = sum(trial.cost is not None for trial in results.trials)
    figures.ratio("evaluation.right", right / count, ">=", 1)
    figures.ratio("evaluation.charged", charged / count, ">=", 1)


async def follow(gateway: Gateway, run: EvaluationRun) -> None:
    while True:
        found = await gateway.get(path_of(run.evaluation_id), pb.GetEvaluationResponse)
        say(f"  {sum(arm.judged_count for arm in found.progress)} of {run.trial_count} trials")
        await asyncio.sleep(10)


def evaluation(id: str, count: int) -> pb.CreateEvaluationRequest:
    items = min(count, ITEMS_MAX)
    check = check_pb2.Check(verifier="numeric", parameters_json='{"expected": "42"}')
    return pb.CreateEvaluationRequest(
        evaluation=pb.Evaluation(
            id=id,
            suite="scripted",
            arms=[pb.EvaluationArm(name="scripted", tool_names=["calculator"])],
            repeats=count // items,
            budget_id=budget_name(id),
        ),
        items=(
            pb.EvaluationItem(id=str(number), question=f"What is 6 x 7, {number}?", check=check)
            for number in range(items)
        ),
    )


def prices() -> prices_pb.CreatePricesRequest:
    components = [
        prices_pb.PriceComponent(dimension=dimension, unit_price="0.2", per="1000000")
        for dimension in (
            usage_pb2.USAGE_DIMENSION_INPUT_FRESH,
            usage_pb2.USAGE_DIMENSION_OUTPUT_TEXT,
        )
    ]
    spec = prices_pb.PriceSpec(
        sku=f"orchestrator/{MODEL}", currency_code="USD", components=components, source="bench"
    )
    return prices_pb.CreatePricesRequest(specs=[spec])


def worker_process(connection: Connection, folder: Path) -> ManagedProcess:
    """A process that plays the trials as a cluster's pod does."""
    temporal = {f"TEMPORAL__{name.upper()}": str(v) for name, v in connection.temporal.items()}
    settings = {
        "TEMPORAL_TARGET": connection.temporal_target,
        "GATEWAY_TARGET": connection.gateway_url,
        "API_KEY": connection.api_key,
        "TASK_QUEUE": QUEUE,
        **temporal,
    }
    return ManagedProcess(
        "worker",
        [sys.executable, "-m", "podium_evaluation.worker"],
        log_path=folder / "worker.log",
        env={**os.environ, **{f"PODIUM_TRAIN_{name}": each for name, each in settings.items()}},
    )


async def most_memory(processes: Mapping[str, ManagedProcess], memory_of: dict[str, int]) -> None:
    """Notes the most bytes that each process took, its children included."""
    while True:
        for name, process in processes.items():
            if process.pid:
                taken = await asyncio.to_thread(memory, process.pid)
                memory_of[name] = max(memory_of.get(name, 0), taken)
        await asyncio.sleep(10)


def memory(pid: int) -> int:
    """Proportional bytes: what processes share counts once."""
    total = 0
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                total += each.memory_full_info().pss
    return total


async def database_bytes(platform: LocalPlatform) -> dict[str, int]:
    return {name: await _scalar(platform, name) for name in DATABASES}


async def _scalar(platform: LocalPlatform, name: str) -> int:
    connection = await _connect(platform, name)
    try:
        return int(await connection.fetchval("SELECT pg_database_size(current_database())"))
    finally:
        await connection.close()


async def lookup_us(platform: LocalPlatform) -> float:
    """Microseconds that looking for a trial adds to a statement, among the trials of the run."""
    connection = await _connect(platform, "episodes")
    try:
        took = {}
        for query in (NOTHING, LOOKUP, NOTHING, LOOKUP):
            statement = await connection.prepare(query)
            began = time.perf_counter()
            for _ in range(LOOKUPS):
                await statement.fetch(uuid_utils.uuid7().hex)
            took[query] = (time.perf_counter() - began) / LOOKUPS * 1e6
        return took[LOOKUP] - took[NOTHING]
    finally:
        await connection.close()


async def _connect(platform: LocalPlatform, name: str) -> "asyncpg.Connection[asyncpg.Record]":
    if platform.postgres is None:
        raise RuntimeError("the platform is not up")
    return await asyncpg.connect(platform.postgres.dsn(name).replace("+asyncpg", ""))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bench.evaluations",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=10_000, help="trials")
    parser.add_argument("--at-once", type=int, default=256, help="trials in flight")
    options = parser.parse_args()
    figures = Figures("evaluations")
    asyncio.run(measure(options.count, options.at_once, figures))
    figures.write()


if __name__ == "__main__":
    main()
