"""What first turns cannot be drawn from."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import yaml

from podium_kit.client.errors import UsageError
from podium_training.grpo.config import InvalidConfig
from podium_training.sft.config import FirstTurnsConfig
from podium_training.sft.demonstrations import first_rows
from podium_training.tasks.task import Split, Task
from unit.podium_training.first_turns.offered import POOL, TASKS, host
from unit.podium_training.first_turns.played import TOKENIZER


def draw(folder: Path, task: Task, *specialists: str) -> None:
    tasks, experts = folder / "tasks.jsonl", folder / "experts.yaml"
    tasks.write_text(f"{task.to_json()}\n")
    experts.write_text(yaml.safe_dump(POOL.model_dump(by_alias=True, mode="json")))
    wanted = FirstTurnsConfig(tasks=tasks, experts=experts, specialists=specialists)
    first_rows([host("sums")], wanted, TOKENIZER, Random(1))


def test_nothing_is_learnt_from_held_out_tasks(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="sums-0 is held out"):
        draw(tmp_path, replace(TASKS[0], split=Split.HELD_OUT))


def test_a_specialist_is_one_of_the_experts(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"first_turns.specialists: .* has no model nurse"):
        draw(tmp_path, TASKS[0], "nurse")
