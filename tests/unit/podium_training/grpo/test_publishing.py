"""Publishing needs the store alone: a trainer may live where no name is resolved."""

import socket
from pathlib import Path

import pytest

from podium_training.grpo.config import LoraConfig
from podium_training.grpo.model.policy import load_policy
from policy_version_builders import make_publisher
from unit.podium_training.grpo.builders import make_model, make_tokenizer


def test_an_adapter_is_published_without_asking_a_model_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_model(vocabulary=len(make_tokenizer())).save_pretrained(tmp_path / "base")
    policy = load_policy(tmp_path / "base", LoraConfig(rank=2, alpha=4))
    asked: list[object] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *_, **__: asked.append(host))
    manifest = make_publisher(tmp_path / "store").publish(policy, 1, {0: 8})
    assert "adapter_model.safetensors" in manifest.files
    assert asked == []
