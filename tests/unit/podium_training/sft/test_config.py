"""The file of a fine-tuning run."""

import sys
from pathlib import Path

import pytest
import yaml

from podium_kit.policy_versions import VersionStore
from podium_training.grpo.config import InvalidConfig, read_section
from podium_training.sft.__main__ import main
from podium_training.sft.config import SftConfig
from unit.podium_kit.policy_versions.test_store import NAME, fill, make_manifest

PROJECT = Path(__file__).parents[4]


def test_the_bundled_policy_s_file_is_read() -> None:
    config = read_section(PROJECT / "bundled" / "policy" / "sft.yaml", SftConfig)
    assert config.first_turns is not None


def test_the_name_of_a_version_that_was_pruned_is_rejected_before_anything_is_learnt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = VersionStore(tmp_path / "store")
    store.write(make_manifest(), fill)
    store.remove(NAME)
    monkeypatch.setattr(sys, "argv", ["sft", str(write_config(tmp_path, "demo"))])
    assert main() == 2
    assert capsys.readouterr().err == (
        f"publish.number: {NAME} is or was in the store; give it another\n"
    )


def test_a_name_that_no_version_can_bear_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"publish\.run"):
        read_section(write_config(tmp_path, "Facts_GRPO"), SftConfig)


def write_config(folder: Path, run: str) -> Path:
    config = {
        "model": "policy",
        "stream": {"bootstrap": "unused:1"},
        "lora": {},
        "publish": {"store": str(folder / "store"), "run": run, "number": 1},
    }
    path = folder / "sft.yaml"
    path.write_text(yaml.safe_dump(config))
    return path
