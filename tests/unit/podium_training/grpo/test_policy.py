import shutil
from pathlib import Path

import pytest
import torch

from podium_training.grpo.config import InvalidConfig, LoraConfig
from podium_training.grpo.model.policy import load_policy
from unit.podium_training.grpo.builders import make_model


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    make_model().save_pretrained(folder)
    return folder


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
