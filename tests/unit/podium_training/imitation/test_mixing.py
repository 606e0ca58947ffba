from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from podium_kit.policy_versions import VersionStore
from podium_training.grpo.config import LoraConfig
from podium_training.grpo.model.policy import load_policy
from podium_training.imitation import mixing
from unit.podium_training.grpo.builders import make_model, make_tokenizer

CONFIG = """
model: {folder}/base
output: {folder}/run
steps: 1
stream: {{bootstrap: unused:1}}
lora: {{rank: 2, alpha: 4, start: {folder}/one}}
publish: {{store: {folder}/store, run: mixes, every: 1}}
"""
WEIGHTS = "adapter_model.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokenizer = make_tokenizer()
    make_model(vocabulary=len(tokenizer)).save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    for seed, name in enumerate(("one", "other")):
        _save_adapter(tmp_path, name, LoraConfig(rank=2, alpha=4, seed=seed))
    _save_adapter(tmp_path, "wider", LoraConfig(rank=4, alpha=4))
    (tmp_path / "run.yaml").write_text(CONFIG.format(folder=tmp_path))
    return tmp_path


def _save_adapter(folder: Path, name: str, lora: LoraConfig) -> None:
    policy = load_policy(folder / "base", lora)
    for name_of_weight, value in policy.named_parameters():
        if "lora_B" in name_of_weight:
            torch.nn.init.normal_(value)
    policy.save_pretrained(folder / name, save_embedding_layers=False)


def test_each_matrix_is_the_weighted_mean_of_both(folder: Path) -> None:
    assert mix(folder, "other") == 0
    one, other, mean = (
        load_file(each / WEIGHTS)
        for each in (folder / "one", folder / "other", folder / "store" / "policy-mixes-v7")
    )
    assert one.keys() == mean.keys()
    for name, weights in mean.items():
        torch.testing.assert_close(weights, 0.75 * one[name] + 0.25 * other[name])
        assert not torch.equal(weights, one[name])


def test_what_cannot_be_mixed_is_rejected_with_the_reason(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mix(folder, "wider") == 2
    assert "holds no adapter of this rank" in capsys.readouterr().err
    assert mix(folder, "other") == 0
    assert mix(folder, "other") == 2
    taken = "policy-mixes-v7 is or was in the store; give the mix another --number"
    assert taken in capsys.readouterr().err
    VersionStore(folder / "store").remove("policy-mixes-v7")
    assert mix(folder, "other") == 2
    assert taken in capsys.readouterr().err
    assert mix(folder, "other", number="100000000") == 2
    assert "policy-mixes-v100000000" in capsys.readouterr().err
    for share in ("0", "1.5", "half", "nan"):
        with pytest.raises(SystemExit):
            mix(folder, "other", share)
        assert "--share" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        mix(folder, "other", number="-1")
    assert "--number" in capsys.readouterr().err


def mix(folder: Path, other: str, share: str = "0.25", number: str = "7") -> int:
    config, adapter = str(folder / "run.yaml"), str(folder / other)
    return mixing.main([config, adapter, "--share", share, "--number", number])
