"""What first turns cannot be drawn from."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from podium_kit.client.errors import UsageError
from podium_training.grpo.config import InvalidConfig
from podium_training.sft.config import FirstTurnsConfig
from podium_training.sft.first_turns import FirstTurns
from podium_training.tasks.task import Split, Task
from unit.podium_training.first_turns.offered import POOL, TASKS


def read(folder: Path, task: Task, *specialists: str) -> None:
    tasks, experts = folder / "tasks.jsonl", folder / "experts.yaml"
    tasks.write_text(f"{task.to_json()}\n")
    experts.write_text(yaml.safe_dump(POOL.model_dump(by_alias=True, mode="json")))
    wanted = FirstTurnsConfig(tasks=tasks, experts=experts, specialists=specialists)
    FirstTurns.read(wanted)


def test_nothing_is_learnt_from_held_out_tasks(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="sums-0 is held out"):
        read(tmp_path, replace(TASKS[0], split=Split.HELD_OUT))


def test_a_specialist_is_one_of_the_experts(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"first_turns.specialists: .* has no model nurse"):
        read(tmp_path, TASKS[0], "nurse")
