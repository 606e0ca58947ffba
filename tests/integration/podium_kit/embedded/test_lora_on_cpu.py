import subprocess
from pathlib import Path

import pytest

from podium_kit.embedded.command import foreign_environment
from podium_kit.embedded.vllm.environment import VllmEnvironment
from podium_kit.embedded.vllm.server import INSIDE

pytestmark = pytest.mark.vllm

PROGRAM = Path(__file__).with_name("lora_program.py")


def test_each_token_has_its_own_adapter_or_none() -> None:
    argv = [VllmEnvironment().python, PROGRAM]
    environment = foreign_environment() | {"PYTHONPATH": str(INSIDE)}
    ran = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    differences = [float(line) for line in ran.stdout.splitlines()]
    assert len(differences) == 5
    assert max(differences) < 1e-4
