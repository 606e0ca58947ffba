import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from integration.podium_training.grpo.recorded import produce, write_policy
from podium.episodes.v1 import trajectory_pb2 as pb
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.policy_versions import VersionStore
from unit.podium_training.imitation.builders import FAMILIES, POOL, TASKS, host, own

pytestmark = pytest.mark.training


async def sft(config: Path) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "podium_training.imitation.sft",
        str(config),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


def write_run(folder: Path, kafka: EmbeddedKafka, topic: str, **changed: Any) -> Path:
    tasks, experts = folder / "tasks.jsonl", folder / "experts.yaml"
    tasks.write_text("".join(f"{task.to_json()}\n" for task in TASKS))
    experts.write_text(yaml.safe_dump(POOL.model_dump(by_alias=True, mode="json")))
    config = {
        "model": str(write_policy(folder / "policy")),
        "stream": {"bootstrap": kafka.bootstrap_servers, "topic": topic, "patience_s": 8},
        "lora": {"rank": 4, "alpha": 8},
        "first_turns": {"tasks": str(tasks), "experts": str(experts), "count": 12},
        "publish": {"store": str(folder / "store"), "run": "shown", "number": 3},
        "steps": 60,
        "learning_rate": 0.02,
        "tokens_max": 3000,
        "precision": "float32",
    }
    path = folder / "sft.yaml"
    path.write_text(yaml.safe_dump(config | changed))
    return path


async def test_what_was_demonstrated_becomes_a_version(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    shown = (own(f"o{number}", f"t-{number}", ("add",)) for number in range(120))
    records = [
        (each.group_id, pb.TrajectoryRecord(trajectory=each)) for each in (host(*FAMILIES), *shown)
    ]
    await kafka.create_topics({"shown": 1})
    await asyncio.to_thread(produce, kafka.bootstrap_servers, "shown", records)
    run = write_run(tmp_path, kafka, "shown")

    status, said = await sft(run)
    assert status == 0, said
    assert "121 solved episodes; left out: none" in said
    before, after = (line for line in said.splitlines() if "held back: " in line)
    assert loss_of(after) < loss_of(before) / 2

    version = VersionStore(tmp_path / "store").verified("policy-shown-v3")
    assert version.format == "adapter"
    status, said = await sft(run)
    assert (status, said) == (
        2,
        "publish.number: policy-shown-v3 is or was in the store; give it another\n",
    )


async def test_what_cannot_be_learnt_is_said(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    await kafka.create_topics({"silent": 1})
    status, said = await sft(write_run(tmp_path, kafka, "silent", first_turns=None))
    assert status == 2
    assert "no solved episode is on silent: play some" in said
    status, said = await sft(write_run(tmp_path, kafka, "silent", epochs=3))
    assert status == 2
    assert "epochs: Extra inputs are not permitted" in said


def loss_of(line: str) -> float:
    return float(line.partition("loss=")[2].partition(",")[0])
