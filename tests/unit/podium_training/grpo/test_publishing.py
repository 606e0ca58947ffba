import socket
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from podium_training.grpo.canary import NotFinite
from podium_training.grpo.config import LoraConfig
from podium_training.grpo.model.policy import load_policy
from policy_version_builders import make_adapted, make_publisher
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


def test_weights_are_rounded_to_half_the_bytes_when_asked(tmp_path: Path) -> None:
    whole = make_publisher(tmp_path / "whole")
    rounded = replace(make_publisher(tmp_path / "rounded"), precision=torch.bfloat16)
    for publisher in (whole, rounded):
        publisher.publish(make_adapted(seed=1), 1, {0: 8})
    [exact, near] = [
        load_file(publisher.store.path("policy-demo-v1") / "adapter_model.safetensors")
        for publisher in (whole, rounded)
    ]
    assert {each.dtype for each in near.values()} == {torch.bfloat16}
    for name, weights in exact.items():
        assert weights.dtype is torch.float32
        torch.testing.assert_close(near[name].float(), weights, rtol=1 / 128, atol=0)


def test_another_runs_version_stays_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    publisher = make_publisher(tmp_path / "store")
    first = publisher.publish(make_adapted(seed=1), 1, {0: 8})
    assert publisher.publish(make_adapted(seed=1), 1, {0: 8}) == first
    assert not caplog.text
    assert publisher.publish(make_adapted(seed=2), 1, {0: 8}) == first
    assert "give this one another name in publish.run" in caplog.text


def test_a_policy_that_came_to_nothing_is_not_published(tmp_path: Path) -> None:
    policy = make_adapted(seed=1)
    for name, weights in policy.named_parameters():
        if "lora_" in name:
            torch.nn.init.constant_(weights, torch.nan)
    publisher = make_publisher(tmp_path / "store")
    with pytest.raises(NotFinite, match="a lower learning_rate"):
        publisher.publish(policy, 1, {0: 8})
    assert publisher.store.names() == []
