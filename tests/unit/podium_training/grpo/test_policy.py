"""The policy of a run: loaded, continued, published."""

import shutil
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from builders.policy_versions import make_adapted, make_publisher
from builders.version_folders import write_version
from podium_kit.policy_versions import Format
from podium_training.grpo.canary import NotFinite
from podium_training.grpo.checkpoints import Checkpoint
from podium_training.grpo.config import InvalidConfig, LoraConfig, RunConfig
from podium_training.grpo.model.policy import load_policy
from podium_training.grpo.process_group import ProcessGroup
from podium_training.grpo.run import make_learner, publisher_of, publishing, whole_policy
from unit.podium_training.grpo.builders import make_model, make_tokenizer


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    tokenizer = make_tokenizer()
    make_model(vocabulary=len(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_config(base: Path, output: Path, **changes: Any) -> RunConfig:
    config: dict[str, Any] = {
        "model": base,
        "output": output,
        "steps": 1,
        "stream": {"bootstrap": "unused:1"},
        "publish": {"store": output / "store", "run": "demo"},
    }
    return RunConfig.model_validate(config | changes)


def make_checkpoint(config: RunConfig) -> Checkpoint:
    learner = make_learner(config, ProcessGroup())
    return Checkpoint(1, *learner.gathered(), {"offsets": {"0": 8}, "turn": 0})


def test_a_version_that_was_pruned_is_not_published_again(
    base: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = make_config(base, tmp_path)
    publish = publishing(config, make_learner(config, ProcessGroup()), ProcessGroup())
    publisher = publisher_of(config)
    assert publish is not None and publisher is not None
    publish(make_checkpoint(config))
    assert list(map(str, publisher.store.names())) == ["policy-demo-v1"]
    publisher.store.remove("policy-demo-v1")
    publish(make_checkpoint(config))
    assert publisher.store.names() == []
    assert "policy-demo-v1 was published and pruned before" in caplog.text


def test_a_version_belongs_to_the_tenant_that_it_and_those_before_it_learnt_from(
    base: Path, tmp_path: Path
) -> None:
    """Also one that continues it with the episodes of all."""
    config = make_config(base, tmp_path, source={"tenant": "acme", "policy": "users"})
    publish = publishing(config, make_learner(config, ProcessGroup()), ProcessGroup())
    publisher = publisher_of(config)
    assert publish is not None and publisher is not None
    publish(make_checkpoint(config))
    assert publisher.store.manifest("policy-demo-v1").tenant == "acme"
    adapter = write_version(publisher.store, "policy-users-v1", Format.ADAPTER, "acme")
    start = {"start": str(publisher.store.path(adapter))}
    continued = publisher_of(make_config(base, tmp_path, lora=start))
    others = publisher_of(make_config(base, tmp_path, lora={"rank": 2}))
    assert continued is not None and others is not None
    assert (continued.tenant, others.tenant) == ("acme", "")


@pytest.mark.parametrize(
    ("lora", "changed"),
    [({"rank": 2}, None), (None, {"rank": 2}), ({"rank": 2}, {"rank": 4})],
    ids=["removed", "added", "of another rank"],
)
def test_a_checkpoint_of_another_adapter_is_no_policy_of_the_run(
    base: Path, tmp_path: Path, lora: dict[str, int] | None, changed: dict[str, int] | None
) -> None:
    config = make_config(base, tmp_path, lora=lora)
    named = load_policy(config.model, config.lora).named_parameters()
    weights = {name: value.detach() for name, value in named if value.requires_grad}
    checkpoint = Checkpoint(1, weights, {}, {})
    whole_policy(config, checkpoint)
    with pytest.raises(InvalidConfig, match=r"lora: .*set `lora` and `model` back"):
        whole_policy(make_config(base, tmp_path, lora=changed), checkpoint)


@pytest.fixture(scope="module")
def adapter(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapter")
    policy = load_policy(base, LoraConfig(rank=2, alpha=4, seed=1))
    for name, value in policy.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(value)
    policy.save_pretrained(folder)
    return folder


def logits(base: Path, lora: LoraConfig) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = load_policy(base, lora)(torch.tensor([[3, 4, 5]])).logits
    return found


def test_a_run_starts_from_the_adapter_it_names_and_learns_all_of_it(
    base: Path, adapter: Path
) -> None:
    started = LoraConfig(rank=2, alpha=4, start=adapter)
    fresh = LoraConfig(rank=2, alpha=4)
    assert not torch.allclose(logits(base, started), logits(base, fresh))
    found = load_policy(base, started).state_dict()
    saved = load_policy(base, LoraConfig(rank=2, alpha=4, seed=1)).state_dict()
    of_first = [name for name in saved if "lora_A" in name]
    assert of_first and all(torch.equal(found[name], saved[name]) for name in of_first)
    trained = {
        n for n, value in load_policy(base, started).named_parameters() if value.requires_grad
    }
    assert trained == {name for name in found if "lora_" in name}


def test_an_adapter_that_does_not_fit_or_is_not_there_is_rejected(
    base: Path, adapter: Path, tmp_path: Path
) -> None:
    for lora in (LoraConfig(rank=4, start=adapter), LoraConfig(rank=2, start=tmp_path)):
        with pytest.raises(InvalidConfig, match=r"lora\.start"):
            load_policy(base, lora)


def test_an_adapter_goes_on_with_the_alpha_it_was_trained_with(
    base: Path, adapter: Path, tmp_path: Path
) -> None:
    with pytest.raises(InvalidConfig, match=r"lora\.alpha: .* with alpha 4 .*; set `alpha: 4`"):
        load_policy(base, LoraConfig(rank=2, alpha=8, start=adapter))
    shutil.copy(adapter / "adapter_model.safetensors", tmp_path)
    for text in ("{", "{}", "[]"):
        (tmp_path / "adapter_config.json").write_text(text)
        with pytest.raises(InvalidConfig, match=r"no adapter_config\.json that states lora_alpha"):
            load_policy(base, LoraConfig(rank=2, alpha=4, start=tmp_path))


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
    # Servers that other tests share log into the same process.
    assert "publish.run" not in caplog.text
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
