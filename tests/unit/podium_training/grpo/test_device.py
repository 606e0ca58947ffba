from functools import partial

import pytest
import torch
from torch.utils._pytree import tree_leaves
from transformers import LlamaForCausalLM

from podium_training.grpo.config import InvalidConfig
from podium_training.grpo.device import choose_device
from podium_training.grpo.learner import Learner, StepOptions
from podium_training.grpo.objective.losses import Level, Loss, LossOptions
from podium_training.grpo.process_group import ProcessGroup
from unit.podium_training.grpo.builders import make_model
from unit.podium_training.grpo.other_device import OTHER, MixedDevices, OtherDevice
from unit.podium_training.grpo.test_learner import GRAMMAR, VOCABULARY, make_group, make_learner

OPTIONS = StepOptions(LossOptions(Loss.GRPO, Level.SEQUENCE, kl_coefficient=0.5), drift_stop=100)
STEPS = 2


def make_untied(seed: int) -> LlamaForCausalLM:
    model = make_model(seed, VOCABULARY)
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    return model


def make_learner_on(device: torch.device) -> Learner:
    return Learner(
        make_untied(0),
        partial(torch.optim.SGD, lr=0.5, momentum=0.9),
        GRAMMAR,
        OPTIONS,
        processes=ProcessGroup(device=device),
        reference=make_untied(1),
    )


def test_a_step_on_another_device_is_that_on_the_cpu() -> None:
    group = make_group(make_learner())
    here = make_learner_on(torch.device("cpu"))
    with OtherDevice():
        there = make_learner_on(OTHER)
        for _ in range(STEPS):
            found, expected = there.step([group]), here.step([group])
            assert found.applied
            # Attention is another kernel there.
            assert found.metrics == pytest.approx(expected.metrics, rel=1e-4, abs=1e-5)
        weights, optimizer = there.gathered()
    for name, value in here.gathered()[0].items():
        assert torch.allclose(weights[name], value, rtol=0, atol=1e-5), name
    kept = [*weights.values(), *tree_leaves(optimizer)]
    assert {each.device.type for each in kept if isinstance(each, torch.Tensor)} == {"cpu"}


def test_a_checkpoint_of_another_device_is_resumed_on_the_cpu_and_back() -> None:
    group = make_group(make_learner())
    with OtherDevice():
        there, back = make_learner_on(OTHER), make_learner_on(OTHER)
        there.step([group])
        here = make_learner_on(torch.device("cpu"))
        here.restore(*there.gathered())
        back.restore(*here.gathered())
        expected = there.step([group]).metrics
        assert here.step([group]).metrics == pytest.approx(expected, rel=1e-4, abs=1e-5)
        assert back.step([group]).metrics == expected


def test_that_device_rejects_what_a_gpu_would() -> None:
    with OtherDevice():
        there = torch.ones(3).to(OTHER)
        assert (there * torch.tensor(2.0)).sum().item() == 6
        with pytest.raises(MixedDevices):
            there + torch.ones(3)


def test_a_gpu_is_taken_only_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")
    with pytest.raises(InvalidConfig, match="set `device: cpu`"):
        choose_device("cuda")
