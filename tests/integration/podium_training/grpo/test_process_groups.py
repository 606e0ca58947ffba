import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from integration.podium_training.grpo.recorded import make_records
from integration.podium_training.grpo.test_runs import finish, make_run, make_topic, metrics_of
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.process import ManagedProcess
from podium_kit.policy_versions import Manifest, VersionStore
from podium_kit.policy_versions.manifest import WEIGHTS
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
    "layers again": {"step": {**STEP, "recomputed": "layers"}},
}


def of_two(folder: Path) -> ManagedProcess:
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"processes": 2}))
    place = {"PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": str(free_port())}
    return ManagedProcess(
        "torchrun",
        [sys.executable, "-m", "podium_training.grpo.launch", path],
        log_path=folder / "torchrun.log",
        env={**os.environ, **place, "PET_NPROC_PER_NODE": "2"},
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


# Bytes are rounded otherwise in shares than in a whole.
@pytest.mark.parametrize(("averages", "apart"), [("float32", 1e-7), ("bytes", 0.1 * RATE)])
async def test_a_checkpoint_of_two_processes_is_resumed_by_one(
    averages: str, apart: float, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic = await make_topic(kafka, f"processes-resumed-{averages}", make_records(4 * STEPS))
    step = {**STEP, "averages": averages}
    await finish(make_run(tmp_path / "one", kafka, topic, STEPS, step=step))
    begun = make_run(tmp_path / "begun", kafka, topic, STEPS - 1, step=step)
    await finish(of_two(tmp_path / "begun"))
    path = tmp_path / "begun" / "run.yaml"
    config = yaml.safe_load(path.read_text()) | {"processes": 1, "steps": STEPS}
    path.write_text(yaml.safe_dump(config))
    await finish(begun)
    expected = weights_of(tmp_path / "one")
    for name, value in weights_of(tmp_path / "begun").items():
        assert (value - expected[name]).abs().mean() <= apart, name
    checkpoint = latest(tmp_path / "begun" / "run" / "checkpoints")
    assert checkpoint is not None
    states = checkpoint.optimizer["state"].values()
    held = {value.dtype for state in states for value in state.values()}
    assert (torch.int8 in held) is (averages == "bytes")


def published(folder: Path) -> dict[str, tuple[Manifest, dict[str, torch.Tensor]]]:
    """The versions that a run left, which the engines' side accepts."""
    store = VersionStore(folder / "store")
    found = {}
    for name in map(str, store.names()):
        manifest = store.verified(name)
        found[name] = (manifest, load_file(store.path(name) / WEIGHTS[manifest.format]))
    return found


@pytest.mark.parametrize("kind", ["all", "adapter"])
async def test_two_processes_publish_what_one_publishes(
    kind: str, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic = await make_topic(kafka, f"processes-publish-{kind}", make_records(4 * STEPS))
    fields = {"step": STEP, **TRAINED[kind]}
    for name in ("one", "two"):
        publish = {"store": str(tmp_path / name / "store"), "run": "demo"}
        run = make_run(tmp_path / name, kafka, topic, STEPS, publish=publish, **fields)
        await finish(run if name == "one" else of_two(tmp_path / name))
    expected, found = published(tmp_path / "one"), published(tmp_path / "two")
    assert list(found) == list(expected) == [f"policy-demo-v{n + 1}" for n in range(STEPS)]
    for name, (manifest, weights) in found.items():
        theirs, exact = expected[name]
        computed = {"files": manifest.files, "canary": manifest.canary}
        assert manifest == theirs.model_copy(update=computed)
        assert manifest.files.keys() == theirs.files.keys()
        assert weights.keys() == exact.keys()
        for key, value in weights.items():
            assert torch.allclose(value, exact[key], rtol=0, atol=1e-6), key
        for ours, reference in zip(manifest.canary.prompts, theirs.canary.prompts, strict=True):
            assert ours.next_ids == reference.next_ids
            assert ours.logprobs == pytest.approx(reference.logprobs, abs=1e-4)
    # As after a kill between the checkpoint and the version.
    last = f"policy-demo-v{STEPS}"
    shutil.rmtree(tmp_path / "two" / "store" / last)
    await finish(of_two(tmp_path / "two"))
    again, first = published(tmp_path / "two")[last][0], found[last][0]
    assert again.canary == first.canary
    # PEFT lists an adapter's layers in any order, so of its files the weights alone are the same.
    assert again.files[WEIGHTS[again.format]] == first.files[WEIGHTS[first.format]]


async def test_what_the_first_process_cannot_publish_ends_all_alike(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic = await make_topic(kafka, "processes-unpublished", make_records(4))
    folder = tmp_path / "run"
    publish = {"store": str(folder / "store"), "run": "demo"}
    make_run(folder, kafka, topic, 1, step=STEP, publish=publish, processes=2)
    (folder / "store").write_text("a file is no store")
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    processes = [
        ManagedProcess(
            f"rank {rank}",
            [sys.executable, "-m", "podium_training.grpo", folder / "run.yaml"],
            log_path=folder / f"rank-{rank}.log",
            env={**os.environ, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    ]
    for process in processes:
        process.start()
    assert await asyncio.gather(*(process.wait() for process in processes)) == [1, 1]
    for process in processes:
        assert "the version of step 1 could not be published" in process.log_tail()
    checkpoint = latest(folder / "run" / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.step == 1


async def test_a_run_of_another_size_than_was_configured_is_rejected(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "run", kafka, "never-read", processes=2)
    run.start()
    assert await run.wait() == 2
    assert "torchrun started 1" in run.log_tail()


async def test_what_would_fail_again_has_a_status_of_its_own_under_torchrun(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic = await make_topic(kafka, "processes-ended", make_records(1))
    make_run(tmp_path / "ended", kafka, topic, STEPS, step=STEP)
    make_run(tmp_path / "invalid", kafka, topic, STEPS, step=STEP, model=str(tmp_path))
    for name, status in {"ended": 3, "invalid": 2}.items():
        run = of_two(tmp_path / name)
        run.start()
        assert await run.wait() == status, run.log_tail()
    assert f"model: {tmp_path} holds no model" in run.log_tail(400)
