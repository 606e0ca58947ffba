from pathlib import Path

import pytest

from integration.podium_training.grpo.recorded import make_records
from integration.podium_training.grpo.test_process_groups import of_two
from integration.podium_training.grpo.test_runs import (
    GROUPS,
    GROUPS_PER_STEP,
    STEPS,
    finish,
    make_run,
    make_topic,
    metrics_of,
    reach,
    weights_of,
)
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_training.grpo.checkpoints import latest
from podium_training.grpo.ending import PASSING, STREAM_ENDED

pytestmark = [pytest.mark.training, pytest.mark.timeout(400)]


@pytest.mark.parametrize("processes", [1, 2])
async def test_a_stopped_run_saves_its_last_step(
    processes: int, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic = await make_topic(kafka, f"stopped-{processes}", make_records(GROUPS))
    fields = {"checkpoint_every": STEPS, "processes": processes}
    folder = tmp_path / "run"
    run = make_run(folder, kafka, topic, **fields)
    if processes > 1:
        run = of_two(folder)
    run.start()
    await reach(run, folder, 2)
    await run.terminate(grace_s=60)
    assert run.returncode == PASSING, run.log_tail()
    checkpoint = latest(folder / "run" / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.step == metrics_of(folder)[-1]["step"] < STEPS
    stopped = f"stopped after step {checkpoint.step}; the same command continues from there"
    assert stopped in run.log_tail(100)
    await finish(run)
    whole = make_run(tmp_path / "whole", kafka, topic, **fields)
    await finish(whole if processes == 1 else of_two(tmp_path / "whole"))
    assert weights_of(folder) == weights_of(tmp_path / "whole")


@pytest.mark.parametrize("processes", [1, 2])
async def test_what_was_learnt_is_kept_when_the_stream_ends(
    processes: int, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic = await make_topic(kafka, f"silent-{processes}", make_records(3 * GROUPS_PER_STEP))
    run = make_run(tmp_path / "run", kafka, topic, checkpoint_every=STEPS, processes=processes)
    if processes > 1:
        run = of_two(tmp_path / "run")
    run.start()
    assert await run.wait() == STREAM_ENDED, run.log_tail()
    checkpoint = latest(tmp_path / "run" / "run" / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.step == 3
