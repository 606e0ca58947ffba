"""A run on several processes learns what one process learns."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from integration.podium_training.grpo.recorded import make_records
from integration.podium_training.grpo.test_runs import finish, make_run, make_topic, metrics_of
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.process import ManagedProcess
from podium_training.grpo.checkpoints import latest

pytestmark = [pytest.mark.training, pytest.mark.timeout(400)]
STEPS = 3
# Adam divides by the size of gradients, so noise in those near zero shows at the rate's scale.
RATE = 0.001
STEP = {"groups": 4, "learning_rate": RATE, "drift_stop": 100.0}
TRAINED: dict[str, dict[str, Any]] = {
    "all": {},
    "adapter": {"lora": {"rank": 4}},
    "kept near": {"step": {**STEP, "kl_coefficient": 0.5}},
}


def of_two(folder: Path) -> ManagedProcess:
    """The run in a folder, under torchrun."""
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"processes": 2}))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    place = ["--master-addr", "127.0.0.1", "--master-port", str(free_port())]
    return ManagedProcess(
        "torchrun",
        [*command, *place, "-m", "podium_training.grpo", path],
        log_path=folder / "torchrun.log",
    )


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    checkpoint = latest(folder / "run" / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.step == STEPS
    return dict(checkpoint.weights)


@pytest.mark.parametrize("kind", TRAINED)
async def test_two_processes_learn_what_one_learns(
    kind: str, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic = await make_topic(kafka, f"processes-{kind.replace(' ', '-')}", make_records(4 * STEPS))
    fields = {"step": STEP, **TRAINED[kind]}
    await finish(make_run(tmp_path / "one", kafka, topic, STEPS, **fields))
    make_run(tmp_path / "two", kafka, topic, STEPS, **fields)
    await finish(of_two(tmp_path / "two"))
    expected = weights_of(tmp_path / "one")
    for name, value in weights_of(tmp_path / "two").items():
        assert torch.allclose(value, expected[name], rtol=0, atol=1e-6), name
    for ours, theirs in zip(
        metrics_of(tmp_path / "two"), metrics_of(tmp_path / "one"), strict=True
    ):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-6, abs=1e-6)
        assert ours["tokens_trained"] == theirs["tokens_trained"]
        assert ("kl_mean" in ours) is ("kl_mean" in theirs) is (kind == "kept near")
        divergence = theirs.get("kl_mean", 0.0)
        assert ours.get("kl_mean", 0.0) == pytest.approx(divergence, rel=1e-4, abs=1e-6)


async def test_a_checkpoint_of_two_processes_is_resumed_by_one(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic = await make_topic(kafka, "processes-resumed", make_records(4 * STEPS))
    await finish(make_run(tmp_path / "one", kafka, topic, STEPS, step=STEP))
    begun = make_run(tmp_path / "begun", kafka, topic, STEPS - 1, step=STEP)
    await finish(of_two(tmp_path / "begun"))
    path = tmp_path / "begun" / "run.yaml"
    config = yaml.safe_load(path.read_text()) | {"processes": 1, "steps": STEPS}
    path.write_text(yaml.safe_dump(config))
    await finish(begun)
    expected = weights_of(tmp_path / "one")
    for name, value in weights_of(tmp_path / "begun").items():
        assert torch.allclose(value, expected[name], rtol=0, atol=1e-6), name


async def test_a_run_of_another_size_than_was_configured_is_rejected(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "run", kafka, "never-read", processes=2)
    run.start()
    assert await run.wait() == 2
    assert "torchrun started 1" in run.log_tail()
