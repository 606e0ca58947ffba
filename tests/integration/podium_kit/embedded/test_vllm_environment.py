from pathlib import Path

import pytest

from podium_kit.embedded.smollm2 import ModelNotConverted, SmolLM2
from podium_kit.embedded.vllm.environment import VllmEnvironment, VllmNotInstalled


def test_a_missing_environment_is_named_with_its_fix(tmp_path: Path) -> None:
    environment = VllmEnvironment(tmp_path / "vllm")
    with pytest.raises(VllmNotInstalled, match=f"{tmp_path}/vllm: run `make setup`"):
        _ = environment.python


def test_an_interrupted_install_does_not_count(tmp_path: Path) -> None:
    interpreter = tmp_path / "bin" / "python"
    interpreter.parent.mkdir()
    interpreter.touch()
    assert not VllmEnvironment(tmp_path).is_installed()


def test_the_cache_follows_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PODIUM_CACHE_DIR", str(tmp_path))
    with pytest.raises(ModelNotConverted, match=f"{tmp_path}/models/smollm2"):
        _ = SmolLM2().directory
