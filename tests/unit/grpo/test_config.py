"""A run's configuration: every fault is named before anything is loaded."""

from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from grpo.advantages import Advantage
from grpo.config import AdvantageName, InvalidConfig, LossName, read_config
from grpo.losses import Loss

PUBLISH = {"store": "versions", "run": "demo", "every": 2}


def write_config(folder: Path, **changes: Any) -> Path:
    config = {
        "model": "policy",
        "output": "run",
        "steps": 1,
        "stream": {"bootstrap": "127.0.0.1:9092"},
    }
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(config | changes))
    return path


def test_the_names_are_those_of_the_code() -> None:
    assert set(get_args(AdvantageName)) == set(Advantage)
    assert set(get_args(LossName)) == set(Loss)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"step": {"loss": "dapoo"}}, "step.loss"),
        ({"groups": {"advantage": "mean"}}, "groups.advantage"),
        ({"step": {"loss": "imitation"}}, "go together"),
        ({"groups": {"advantage": "solved"}}, "go together"),
        ({"step": {"losss": "dapo"}}, "step.losss"),
        ({"groups": {"versions_behind_max": -1}}, "groups.versions_behind_max"),
        ({"groups": {"versions_behind_max": 4}}, "needs a section publish"),
        (
            {"groups": {"versions_behind_max": 4}, "checkpoint_every": 3, "publish": PUBLISH},
            "at least 5",
        ),
    ],
)
def test_a_fault_is_named(tmp_path: Path, changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidConfig, match=fault):
        read_config(write_config(tmp_path, **changes))


def test_a_run_that_imitates_is_read(tmp_path: Path) -> None:
    path = write_config(tmp_path, step={"loss": "imitation"}, groups={"advantage": "solved"})
    assert read_config(path).step.loss == "imitation"


def test_a_bound_that_the_next_version_meets_is_read(tmp_path: Path) -> None:
    path = write_config(
        tmp_path, groups={"versions_behind_max": 5}, checkpoint_every=3, publish=PUBLISH
    )
    assert read_config(path).groups.versions_behind_max == 5
