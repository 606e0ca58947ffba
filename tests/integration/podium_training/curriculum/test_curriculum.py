"""Demonstrations of a real topic, put in order for a run that imitates them."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from integration.podium_training.grpo.recorded import produce, write_policy
from podium.episodes.v1 import trajectory_pb2 as pb
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_training.curriculum.topic import demonstrated
from podium_training.grpo.config import StreamConfig
from podium_training.tasks.task import Split, Task
from unit.podium_training.curriculum.offered import FAMILIES, POOL, TASKS, host
from unit.podium_training.curriculum.played import asked, own

pytestmark = pytest.mark.training

MIX = ["--tasks", "2", "--choices", "2", "--asked", "1", "--own", "1", "--lists", "1"]
GROUPS, STEPS = 6, 3


async def python(module: str, *arguments: str | Path) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *map(str, arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


async def played(kafka: EmbeddedKafka, source: str) -> None:
    episodes = [
        *(own(f"o{number}", f"t-{number}") for number in range(4)),
        *(asked(f"a{number}", f"t-{number}", "small") for number in range(4)),
        *(own(f"w{number}", f"sql-{number}", ("add",)) for number in range(4)),
    ]
    unsolved = own("unsolved", "t-1")
    unsolved.outcomes[0].score = 0
    private = own("private", "t-1")
    private.training_consent = False
    records = [
        (each.group_id, pb.TrajectoryRecord(trajectory=each))
        for each in (*episodes, unsolved, private)
    ]
    await kafka.create_topics({source: 3})
    await asyncio.to_thread(produce, kafka.bootstrap_servers, source, records)


def write_run(folder: Path, kafka: EmbeddedKafka, topic: str, **step: Any) -> Path:
    config = {
        "model": str(write_policy(folder / "policy")),
        "output": str(folder / "run"),
        "steps": STEPS,
        "stream": {"bootstrap": kafka.bootstrap_servers, "topic": topic, "patience_s": 8},
        "groups": {"advantage": "solved"},
        "step": {"groups": GROUPS, "loss": "imitation", "drift_stop": 100.0} | step,
    }
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


async def test_a_run_learns_the_steps_that_were_written(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    await played(kafka, "played")
    run = write_run(tmp_path, kafka, "ordered")
    order: list[str | Path] = [run, "--source", "played", *MIX]

    status, said = await python("podium_training.curriculum", *order)
    assert status == 0, said
    assert "12 solved episodes; left out: " in said
    assert "1 no consent" in said
    assert "1 unsolved" in said
    assert f"ordered: {STEPS} steps, {STEPS * GROUPS} episodes\n" in said

    stream = StreamConfig(bootstrap=kafka.bootstrap_servers, topic="ordered")
    written, _ = await asyncio.to_thread(demonstrated, stream, "ordered")
    assert len({each.group_id for each in written}) == STEPS * GROUPS
    assert [len(each.turns) for each in written] == [1, 1, 1, 1, 2, 2] * STEPS

    status, said = await python("podium_training.grpo", run)
    assert status == 0, said
    metrics = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert len(metrics) == STEPS

    status, said = await python("podium_training.curriculum", *order)
    assert status == 2
    assert "there is a topic ordered already; name another in stream.topic" in said


async def test_what_does_not_fit_is_said_before_anything_is_read(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    run = write_run(tmp_path, kafka, "wanted", groups=7)
    status, said = await python("podium_training.curriculum", run, *MIX)
    assert (status, said) == (2, "step.groups is 7 and a step here is of 6: correct one\n")
    status, said = await python("podium_training.curriculum", tmp_path / "none.yaml", *MIX)
    assert status == 2
    assert "none.yaml cannot be read: No such file or directory" in said


async def test_questions_that_were_never_played_are_asked_as_the_demonstrator_would(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    episodes = [
        host(*FAMILIES),
        *(own(f"w{number}", f"sql-{number}", ("add",)) for number in range(4)),
    ]
    records = [(each.episode_id, pb.TrajectoryRecord(trajectory=each)) for each in episodes]
    await kafka.create_topics({"asking": 1})
    await asyncio.to_thread(produce, kafka.bootstrap_servers, "asking", records)
    run = write_run(tmp_path, kafka, "asked")
    asking = write_asking(tmp_path, TASKS)

    order: list[str | Path] = [run, "--source", "asking", *MIX, *asking]
    status, said = await python("podium_training.curriculum", *order)
    assert status == 0, said
    stream = StreamConfig(bootstrap=kafka.bootstrap_servers, topic="asked")
    written, _ = await asyncio.to_thread(demonstrated, stream, "asked")
    turns = [each for each in written if len(each.turns) == 1]
    assert len(turns) == STEPS * 4
    assert {each.task_id for each in turns} == {task.id for task in TASKS}


async def test_questions_are_of_tasks_to_learn_from(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    run = write_run(tmp_path, kafka, "wanted")
    held_out = replace(TASKS[0], split=Split.HELD_OUT)
    asking = write_asking(tmp_path, [held_out])
    status, said = await python("podium_training.curriculum", run, *MIX, *asking)
    assert (status, said) == (2, "sums-0 is held out: nothing is learnt from such tasks\n")
    status, said = await python("podium_training.curriculum", run, *MIX, *asking[:2])
    assert (status, said) == (2, "--questions and --experts go together: give both or neither\n")


def write_asking(folder: Path, tasks: Sequence[Task]) -> list[str | Path]:
    """The options that name these tasks and experts."""
    questions, experts = folder / "tasks.jsonl", folder / "experts.yaml"
    questions.write_text("".join(f"{task.to_json()}\n" for task in tasks))
    experts.write_text(yaml.safe_dump(POOL.model_dump(by_alias=True, mode="json")))
    return ["--questions", questions, "--experts", experts]
