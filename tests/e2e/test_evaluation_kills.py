import asyncio
import os
import subprocess
import sys
from decimal import Decimal

import pytest
import uuid_utils

from e2e.conftest import WholePlatform
from e2e.episodes_over_http import entries
from episodes.workflows.settings import TemporalSettings
from podium.episodes.v1 import check_pb2
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium_evaluation.results.trials import read_results
from podium_evaluation.runs.names import budget_name, path_of
from podium_evaluation.runs.payloads import EvaluationRun
from podium_evaluation.runs.preparing import create
from podium_evaluation.runs.submission import start_evaluation
from podium_kit.client.gateway import Gateway
from podium_training.rollouts.rolling import retried
from podium_training.rollouts.settings import RolloutSettings
from podium_training.rollouts.submission import ended, open_temporal

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1200)]

TRIALS, AT_ONCE = 500, 16
VICTIMS = ("worker", "gateway", "postgres", "episodes_worker")
# Three turns, two of which call a tool.
CHARGES_PER_TRIAL = 5
QUEUE = "rollouts"


async def test_every_trial_is_judged_and_charged_once_whatever_is_killed(
    whole: WholePlatform,
) -> None:
    supervision = asyncio.create_task(whole.platform.supervise())
    worker = start_worker(whole)
    try:
        async with Gateway(whole.connection.gateway_url, whole.connection.api_key) as gateway:
            run = EvaluationRun(str(uuid_utils.uuid7()), TRIALS, AT_ONCE)
            await create(gateway, evaluation(run.evaluation_id), Decimal(100))
            temporal = TemporalSettings(**whole.connection.temporal)
            settings = RolloutSettings(
                temporal_target=whole.connection.temporal_target, temporal=temporal
            )
            client = await open_temporal(settings, settings.temporal_target)
            handle = await start_evaluation(client, QUEUE, run)
            for place, victim in enumerate(VICTIMS):
                share = TRIALS * (place + 1) // (len(VICTIMS) + 2)
                await until_judged(gateway, run.evaluation_id, share)
                if victim == "worker":
                    worker.kill()
                    worker.wait()
                    worker = start_worker(whole)
                else:
                    await whole.platform.processes[victim].kill()
            await ended(handle)
            found = await read_results(gateway, run.evaluation_id)
    finally:
        worker.kill()
        worker.wait()
        supervision.cancel()
        await asyncio.wait({supervision})
    assert found.evaluation.state == pb.EVALUATION_STATE_ENDED and not found.evaluation.reason
    assert {trial.item_id: trial.score for trial in found.trials} == {
        str(number): float(right(number)) for number in range(TRIALS)
    }
    async with whole.client() as http:
        for trial in found.trials:
            charged = await entries(http, trial.episode_id)
            assert len({entry["key"] for entry in charged}) == len(charged) == CHARGES_PER_TRIAL
            total = sum(Decimal(entry["amount"]["amount"]) for entry in charged)
            assert trial.cost == total


def right(number: int) -> bool:
    return number % 5 > 0


def evaluation(id: str) -> pb.CreateEvaluationRequest:
    def item(number: int) -> pb.EvaluationItem:
        expected = 42 if right(number) else 41
        check = check_pb2.Check(verifier="numeric", parameters_json=f'{{"expected": "{expected}"}}')
        return pb.EvaluationItem(id=str(number), question=f"survive {number}", check=check)

    return pb.CreateEvaluationRequest(
        evaluation=pb.Evaluation(
            id=id,
            suite="kills",
            arms=[pb.EvaluationArm(name="podium", tool_names=["calculator"])],
            repeats=1,
            budget_id=budget_name(id),
        ),
        items=map(item, range(TRIALS)),
    )


async def until_judged(gateway: Gateway, id: str, count: int) -> None:
    while True:
        found = await retried(gateway.get, path_of(id), pb.GetEvaluationResponse)
        if found.progress[0].judged_count >= count:
            return
        await asyncio.sleep(0.2)


def start_worker(whole: WholePlatform) -> "subprocess.Popen[bytes]":
    connection = whole.connection
    settings = {
        "PODIUM_TRAIN_TEMPORAL_TARGET": connection.temporal_target,
        **{
            f"PODIUM_TRAIN_TEMPORAL__{name.upper()}": str(value)
            for name, value in connection.temporal.items()
        },
        "PODIUM_TRAIN_GATEWAY_TARGET": connection.gateway_url,
        "PODIUM_TRAIN_API_KEY": connection.api_key,
        "PODIUM_TRAIN_TASK_QUEUE": QUEUE,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "podium_evaluation.worker"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], **settings},
    )
