import asyncio
import hashlib
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from kafka import KafkaProducer
from safetensors.torch import load_file, save_file

from integration.podium_training.grpo.recorded import GROUP_SIZE, make_headers, make_records
from integration.podium_training.grpo.test_runs import finish, make_run, reach
from podium.episodes.v1 import trajectory_pb2 as pb
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.process import ManagedProcess
from podium_kit.stream import KafkaSettings
from podium_training.grpo.checkpoints import MANIFEST, STATE, WEIGHTS, kept_steps, path_of
from podium_training.grpo.data.stream import LogCut, LogReader, Position

pytestmark = [pytest.mark.training, pytest.mark.timeout(400)]
TOPIC, EMPTY = "replayed", "replayed-empty"
STEPS = 3
Placed = tuple[int, pb.TrajectoryRecord]


def grown_log() -> tuple[list[Placed], list[Placed]]:
    """Records with their partitions: what a run finds first, and what comes afterwards.

    Groups 0 to 4 are whole, 5 lacks one, which comes together with all of 6. In the order of the
    log alone 6 would be complete before 5, and the third step another.
    """
    records = [record for _, record in make_records(7)][: 7 * GROUP_SIZE]
    groups = [[each for each in records if each.trajectory.group_id == f"g{n}"] for n in range(7)]
    first = [(0, each) for group in groups[:6] for each in group]
    last = first.pop()
    return first, [last, *((1, each) for each in groups[6])]


def produce_placed(bootstrap: str, records: Sequence[Placed]) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    for partition, record in records:
        value = record.SerializeToString()
        producer.send(TOPIC, value, headers=make_headers(value), partition=partition).get(30)
    producer.close(5)


@pytest_asyncio.fixture(scope="module")
async def trained(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose log grew while it was read; the learning rate falls from the first step on."""
    await kafka.create_topics({TOPIC: 2, EMPTY: 2})
    folder = tmp_path_factory.mktemp("replay") / "run"
    first, afterwards = grown_log()
    await asyncio.to_thread(produce_placed, kafka.bootstrap_servers, first)
    step = {"groups": 2, "learning_rate": 0.01, "drift_stop": 100.0, "decay_start": 0.0}
    stream = {"bootstrap": kafka.bootstrap_servers, "topic": TOPIC, "patience_s": 60}
    groups = {"advantage": "batch_std"}
    run = make_run(folder, kafka, TOPIC, STEPS, step=step, stream=stream, groups=groups)
    run.start()
    await reach(run, folder, 2)
    await asyncio.to_thread(produce_placed, kafka.bootstrap_servers, afterwards)
    assert await run.wait() == 0, run.log_tail()
    return folder


def copied(trained: Path, folder: Path, **changes: Any) -> Path:
    shutil.copytree(trained, folder)
    path = folder / "run.yaml"
    config = yaml.safe_load(path.read_text()) | {"output": str(folder / "run")}
    for section, fields in changes.items():
        config[section] = {**config[section], **fields} if isinstance(fields, dict) else fields
    path.write_text(yaml.safe_dump(config))
    return folder


async def said(folder: Path, *arguments: str) -> tuple[int, str]:
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "podium_training.grpo",
        folder / "run.yaml",
        *arguments,
    ]
    process = ManagedProcess("replay", command, log_path=folder / "replay.log")
    process.start()
    return await process.wait(), process.log_tail()


def rewrite_digest(checkpoint: Path, name: str) -> None:
    path = checkpoint / MANIFEST
    digests = json.loads(path.read_text())
    digests[name] = hashlib.sha256((checkpoint / name).read_bytes()).hexdigest()
    path.write_text(json.dumps(digests))


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


async def test_a_replay_gives_the_same_bits_and_leaves_the_run_as_it_is(
    trained: Path, tmp_path: Path
) -> None:
    folder = copied(trained, tmp_path / "same")
    before = contents(folder / "run")
    status, output = await said(folder, "--replay")
    assert (status, "steps 3 to 3 gave the same bits again" in output) == (0, True), output
    assert contents(folder / "run") == before


async def test_several_steps_are_replayed_where_checkpoints_are_rare(
    trained: Path, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    stream = {"bootstrap": kafka.bootstrap_servers, "topic": TOPIC, "patience_s": 8}
    step = {"groups": 1, "learning_rate": 0.01, "drift_stop": 100.0, "decay_start": 0.5}
    run = make_run(tmp_path / "rare", kafka, TOPIC, 6, checkpoint_every=3, stream=stream, step=step)
    await finish(run)
    assert kept_steps(tmp_path / "rare" / "run" / "checkpoints") == [3, 6]
    status, output = await said(tmp_path / "rare", "--replay", "6")
    assert (status, "steps 4 to 6 gave the same bits again" in output) == (0, True), output


async def test_a_weight_that_was_changed_is_named(trained: Path, tmp_path: Path) -> None:
    folder = copied(trained, tmp_path / "changed")
    checkpoint = path_of(folder / "run" / "checkpoints", STEPS)
    weights = load_file(checkpoint / WEIGHTS)
    name = sorted(weights)[3]
    weights[name].view(-1)[5] += 0.25
    save_file(weights, checkpoint / WEIGHTS)
    rewrite_digest(checkpoint, WEIGHTS)
    status, output = await said(folder, "--replay")
    assert status == 1, output
    assert f"{name} differs by up to 0.25" in output
    assert output.count("differs by") == 1


async def test_another_learning_rate_shows_in_weights_and_optimizer(
    trained: Path, tmp_path: Path
) -> None:
    folder = copied(trained, tmp_path / "other", step={"decay_start": 1.0})
    status, output = await said(folder, "--replay", "2")
    assert status == 1, output
    assert "steps 2 to 2 gave other bits" in output
    assert "more" in output


async def test_steps_without_their_checkpoints_or_their_log_are_rejected(
    trained: Path, tmp_path: Path
) -> None:
    folder = copied(trained, tmp_path / "first")
    status, output = await said(folder, "--replay", "1")
    assert (status, "can be replayed: 2, 3" in output) == (2, True), output
    folder = copied(trained, tmp_path / "cut", stream={"topic": EMPTY})
    status, output = await said(folder, "--replay")
    assert (status, "the log no longer holds" in output) == (2, True), output


# The embedded broker removes nothing; a checkpoint before its log's start has lost as much.
async def test_lost_records_are_rejected_or_skipped_and_counted(
    trained: Path, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    settings = KafkaSettings(bootstrap=kafka.bootstrap_servers)
    with pytest.raises(LogCut, match=r"2 of partition 0, 3 of partition 1; .*--skip-lost"):
        await asyncio.to_thread(LogReader, settings, TOPIC, Position({0: -2, 1: -3}))
    folder = copied(trained, tmp_path / "lost", steps=STEPS + 1, stream={"patience_s": 5})
    checkpoint = path_of(folder / "run" / "checkpoints", STEPS)
    state = json.loads((checkpoint / STATE).read_text())
    state["offsets"] = {"0": -2, "1": -3}
    (checkpoint / STATE).write_text(json.dumps(state))
    rewrite_digest(checkpoint, STATE)
    status, output = await said(folder, "--skip-lost")
    assert status == 3, output
    assert "2 records of partition 0 are lost" in output
    assert "'lost': 5" in output
