from pathlib import Path
from typing import Any

import pytest

from podium_training.grpo.checkpoints import Checkpoint
from podium_training.grpo.config import InvalidConfig, RunConfig
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
