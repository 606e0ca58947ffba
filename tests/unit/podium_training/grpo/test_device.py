"""A run on a device of its own, which computes as the CPU does."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from transformers import LlamaForCausalLM

from podium_training.grpo.config import InvalidConfig
from podium_training.grpo.device import choose_device
from podium_training.grpo.learner import Learner, StepOptions
from podium_training.grpo.objective.losses import Level, Loss, LossOptions
from podium_training.grpo.process_group import ProcessGroup
from unit.podium_training.grpo.builders import make_model
from unit.podium_training.grpo.test_learner import GRAMMAR, VOCABULARY, make_group, make_learner

OTHER = torch.device("meta")
CPU = torch.device("cpu")


class MixedDevices(RuntimeError):
    """An operation met tensors of both devices."""


class OtherTensor(Tensor):
    held: Tensor

    @staticmethod
    def __new__(cls: type["OtherTensor"], held: Tensor) -> "OtherTensor":
        found: OtherTensor = Tensor._make_wrapper_subclass(
            cls, held.shape, strides=held.stride(), dtype=held.dtype, device=OTHER
        )
        found.held = held
        return found

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        operation: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[Any, Any] | None = None,
    ) -> Any:
        return computed(operation, args, kwargs or {})


class OtherDevice(TorchDispatchMode):
    """While it is entered, new tensors can be made on the other device."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self,
        operation: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return computed(operation, args, kwargs or {})


def computed(operation: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The operation on the values, its results where a device would leave them."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    there = [each for each in tensors if isinstance(each, OtherTensor)]
    target = kwargs.get("device") or (OTHER if there else CPU)
    mixed = there and any(each.dim() for each in tensors if not isinstance(each, OtherTensor))
    if mixed and operation is not torch.ops.aten.copy_.default:
        raise MixedDevices(f"{operation} on {[str(each.device) for each in tensors]}")
    held_args, held_kwargs = tree_map_only(OtherTensor, lambda t: t.held, (args, dict(kwargs)))
    if "device" in kwargs:
        held_kwargs["device"] = CPU
    if operation is torch.ops.aten._to_copy.default:
        held_kwargs.pop("device", None)
    found = operation(*held_args, **held_kwargs)
    if operation._schema.is_mutable:
        return args[0] if operation._schema.returns else None
    return tree_map_only(Tensor, OtherTensor, found) if target == OTHER else found


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
