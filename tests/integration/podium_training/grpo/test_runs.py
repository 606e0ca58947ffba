import asyncio
import json
import os
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from integration.podium_training.grpo.recorded import make_records, produce, write_policy
from podium.episodes.v1 import trajectory_pb2 as pb
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.process import ManagedProcess
from podium_kit.policy_versions import Format, Manifest, VersionStore
from podium_kit.policy_versions.metrics import stored_metrics
from podium_training.grpo.checkpoints import latest

pytestmark = pytest.mark.training

GROUPS_PER_STEP = 2
KILLS = int(os.environ.get("KILLS", "3"))
# Steps enough that every kill meets another one.
STEPS = max(12, 2 * KILLS)
GROUPS = STEPS * GROUPS_PER_STEP
DONE = 0
ADAPTER_WEIGHTS = "adapter_model.safetensors"


async def make_topic(
    kafka: EmbeddedKafka, name: str, records: list[tuple[str, pb.TrajectoryRecord]]
) -> str:
    await kafka.create_topics({name: 3})
    await asyncio.to_thread(produce, kafka.bootstrap_servers, name, records)
    return name


def make_run(
    folder: Path, kafka: EmbeddedKafka, topic: str, steps: int = STEPS, **sections: Any
) -> ManagedProcess:
    folder.mkdir()
    config: dict[str, object] = {
        "model": str(write_policy(folder / "policy")),
        "output": str(folder / "run"),
        "steps": steps,
        "stream": {"bootstrap": kafka.bootstrap_servers, "topic": topic, "patience_s": 8},
        "step": {"groups": GROUPS_PER_STEP, "learning_rate": 0.01, "drift_stop": 100.0},
        **sections,
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    return grpo(folder)


def grpo(folder: Path) -> ManagedProcess:
    command: list[str | Path] = [sys.executable, "-m", "podium_training.grpo", folder / "run.yaml"]
    return ManagedProcess("grpo", command, log_path=folder / "grpo.log")


async def finish(run: ManagedProcess) -> None:
    run.start()
    assert await run.wait() == DONE, run.log_tail()


def weights_of(folder: Path, steps: int = STEPS) -> dict[str, bytes]:
    checkpoint = latest(folder / "run" / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.step == steps
    return {name: value.numpy().tobytes() for name, value in checkpoint.weights.items()}


def metrics_of(folder: Path) -> list[dict[str, float]]:
    return [
        json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()
    ]


@pytest.mark.timeout(120 + 60 * KILLS)
@pytest.mark.chaos
async def test_a_killed_run_ends_in_the_bits_of_an_uninterrupted_one(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic = await make_topic(kafka, "killed", make_records(GROUPS))
    await finish(make_run(tmp_path / "whole", kafka, topic))
    whole = metrics_of(tmp_path / "whole")
    killed, draw = make_run(tmp_path / "killed", kafka, topic), random.Random(KILLS)
    for number in range(KILLS):
        killed.start()
        first, beyond = (1 + at * (STEPS - 1) // KILLS for at in (number, number + 1))
        aim = draw.randint(first, beyond - 1)
        await reach(killed, tmp_path / "killed", aim)
        await asyncio.sleep(draw.uniform(0, 0.2))
        await killed.kill()
    await finish(killed)
    assert weights_of(tmp_path / "killed") == weights_of(tmp_path / "whole")
    last = metrics_of(tmp_path / "killed")[-1]
    assert last["loss"] == whole[-1]["loss"]


async def reach(run: ManagedProcess, folder: Path, step: int) -> None:
    path = folder / "run" / "metrics.jsonl"
    while run.running and not (path.exists() and f'"step": {step},' in path.read_text()):
        await asyncio.sleep(0.02)


async def test_a_run_publishes_each_step_and_makes_up_for_a_version_it_missed(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic = await make_topic(kafka, "published", make_records(4))
    store = VersionStore(tmp_path / "store")
    publish = {"store": str(store.root), "run": "demo"}
    run = make_run(tmp_path / "run", kafka, topic, steps=2, publish=publish)
    await finish(run)
    assert [str(name) for name in store.names()] == ["policy-demo-v1", "policy-demo-v2"]
    first, second = (store.verified(str(name)) for name in store.names())
    assert (second.parent, second.step) == (first.name, 2)
    assert sum(first.offsets.values()) < sum(second.offsets.values())
    assert first.files["model.safetensors"] != second.files["model.safetensors"]
    assert first.canary != second.canary
    # With each version, what people see of how it was learnt.
    assert [step["step"] for step in stored_metrics(store.root, second.name)] == [1, 2]
    assert "reward_mean" in stored_metrics(store.root, first.name)[0]
    # As after a kill between the checkpoint and the version.
    shutil.rmtree(store.path(second.name))
    await finish(run)
    assert store.verified(second.name) == second


@pytest.mark.chaos
async def test_a_run_with_an_adapter_publishes_it_alone_and_survives_a_kill(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic = await make_topic(kafka, "adapted", make_records(6))
    found: list[list[Manifest]] = []
    for name in ("whole", "killed"):
        store = VersionStore(tmp_path / f"{name}-store")
        publish = {"store": str(store.root), "run": "demo"}
        lora = {"rank": 4, "alpha": 8}
        run = make_run(tmp_path / name, kafka, topic, steps=3, lora=lora, publish=publish)
        if name == "killed":
            run.start()
            await reach(run, tmp_path / name, 1)
            await run.kill()
        await finish(run)
        found.append([store.verified(str(version)) for version in store.names()])
    whole, killed = found
    assert {each.format for each in whole} == {Format.ADAPTER}
    assert len({each.files[ADAPTER_WEIGHTS] for each in whole}) == 3
    assert "model.safetensors" not in whole[0].files
    assert [each.files[ADAPTER_WEIGHTS] for each in killed] == [
        each.files[ADAPTER_WEIGHTS] for each in whole
    ]


async def test_a_run_that_goes_on_stays_near_where_it_began_and_not_near_its_checkpoint(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic = await make_topic(kafka, "near", make_records(6))
    step = {
        "groups": GROUPS_PER_STEP,
        "learning_rate": 0.01,
        "drift_stop": 100.0,
        "kl_coefficient": 0.5,
    }
    await finish(make_run(tmp_path / "whole", kafka, topic, steps=3, step=step))
    await finish(make_run(tmp_path / "parted", kafka, topic, steps=2, step=step))
    path = tmp_path / "parted" / "run.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"steps": 3}))
    await finish(grpo(tmp_path / "parted"))
    assert weights_of(tmp_path / "parted", 3) == weights_of(tmp_path / "whole", 3)
    whole, parted = (
        [line["kl_mean"] for line in metrics_of(tmp_path / name)] for name in ("whole", "parted")
    )
    assert parted == whole
    assert 0 == whole[0] < whole[-1]


async def test_a_stream_that_ends_early_is_no_success(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    topic = await make_topic(kafka, "short", make_records(1))
    run = make_run(tmp_path / "run", kafka, topic)
    run.start()
    assert await run.wait() == 3


async def test_groups_without_new_answers_become_too_old(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic = await make_topic(kafka, "stale", make_records(6))
    fields = {
        "publish": {"store": str(tmp_path / "store"), "run": "demo"},
        "groups": {"versions_behind_max": 1},
    }
    run = make_run(tmp_path / "run", kafka, topic, steps=3, **fields)
    run.start()
    assert await run.wait() == 3
    assert "step 2 is the last" in run.log_tail()
    assert "'stale': 2" in run.log_tail()


async def test_a_fault_in_the_configuration_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("model: m\noutput: o\nsteps: 0\nstreem: {}\n")
    run = ManagedProcess(
        "grpo", [sys.executable, "-m", "podium_training.grpo", path], log_path=tmp_path / "log"
    )
    run.start()
    assert await run.wait() == 2
    assert all(word in run.log_tail() for word in ("streem", "steps", "stream"))
