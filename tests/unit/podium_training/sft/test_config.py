"""The file of a fine-tuning run."""

from pathlib import Path

from podium_training.grpo.config import read_section
from podium_training.sft.config import SftConfig

PROJECT = Path(__file__).parents[4]


def test_the_bundled_policy_s_file_is_read() -> None:
    config = read_section(PROJECT / "bundled" / "policy" / "sft.yaml", SftConfig)
    assert config.first_turns is not None
