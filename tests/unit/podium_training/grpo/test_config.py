import math
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
import yaml

from podium_training.grpo.config import (
    AdvantageName,
    AveragesName,
    InvalidConfig,
    KlEstimatorName,
    LevelName,
    LossName,
    PrecisionName,
    read_config,
)
from podium_training.grpo.learner import StepOptions
from podium_training.grpo.objective.advantages import Advantage
from podium_training.grpo.objective.losses import KlEstimator, Level, Loss, LossOptions
from podium_training.grpo.run import OPTIMIZERS, PRECISIONS, step_options

PROJECT = Path(__file__).parents[4]
PUBLISH = {"store": "versions", "run": "demo", "every": 2}


def test_the_bundled_policy_s_file_is_read() -> None:
    config = read_config(PROJECT / "bundled" / "policy" / "grpo.yaml")
    assert config.lora is not None
    assert config.publish is not None


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
    assert set(get_args(LevelName)) == set(Level)
    assert set(get_args(KlEstimatorName)) == set(KlEstimator)
    assert set(get_args(PrecisionName)) == set(PRECISIONS)
    assert set(get_args(AveragesName)) == set(OPTIMIZERS)


def test_an_unset_value_is_the_codes_default(tmp_path: Path) -> None:
    assert step_options(read_config(write_config(tmp_path))) == StepOptions()


def test_every_option_of_the_loss_reaches_it(tmp_path: Path) -> None:
    numbers: dict[str, Any] = {
        "clip_low": 0.1,
        "clip_high": 0.2,
        "dual_clip": 3.0,
        "length_max": 64,
        "importance_cap": 5.0,
        "kl_coefficient": 0.01,
    }
    names = {"loss": "dr_grpo", "level": "sequence", "kl_estimator": "k2"}
    step = {"passes": 2, **names, **numbers}
    found = step_options(read_config(write_config(tmp_path, step=step, precision="bfloat16")))
    loss = LossOptions(Loss.DR_GRPO, Level.SEQUENCE, kl_estimator=KlEstimator.K2, **numbers)
    assert found == StepOptions(loss, passes=2, precision=torch.bfloat16)


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
        ({"step": {"level": "episode"}}, "step.level"),
        ({"step": {"dual_clip": 1.0}}, "step.dual_clip"),
        ({"step": {"clip_low": 0.1, "clip_high": 0.3}}, "clip_high, clip_low has no effect"),
        ({"step": {"importance_cap": 0.5}}, "step.importance_cap"),
        ({"step": {"averages": "int4"}}, "step.averages"),
        ({"step": {"recomputed": "all"}}, "step.recomputed"),
        ({"step": {"kl_coefficient": -0.1}}, "step.kl_coefficient"),
        ({"step": {"kl_estimator": "k4"}}, "step.kl_estimator"),
        (
            {
                "step": {"loss": "imitation", "kl_coefficient": 0.1},
                "groups": {"advantage": "solved"},
            },
            "does nothing for imitation",
        ),
        ({"groups": {"ignored": ["cost"]}}, "groups.ignored"),
        (
            {
                "step": {"loss": "imitation"},
                "groups": {"advantage": "solved", "ignored": ["tools"]},
            },
            "groups.ignored has no effect",
        ),
        ({"stream": {"bootstrap": "b:1", "patience_s": math.inf}}, r"stream\.patience_s"),
        ({"device": "gpu"}, "device"),
        ({"precision": "float16"}, "precision"),
        ({"publish": PUBLISH | {"run": "Facts_GRPO"}}, r"publish\.run"),
        ({"publish": PUBLISH | {"run": "facts\n"}}, r"publish\.run"),
        ({"publish": PUBLISH | {"run": 47 * "a"}}, r"publish\.run"),
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


@pytest.mark.parametrize(
    "recipe", (PROJECT / "training" / "recipes").glob("*.yaml"), ids=lambda path: path.stem
)
def test_the_recipes_are_read(recipe: Path) -> None:
    assert read_config(recipe).steps > 1
