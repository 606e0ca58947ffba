from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from podium_training.grpo.byte_adamw import BLOCK, MIDDLE, ByteAdamW
from podium_training.grpo.checkpoints import Checkpoint, load, save
from podium_training.grpo.config import InvalidConfig
from podium_training.grpo.learner import Learner, StepOptions
from podium_training.grpo.replay import differences
from unit.podium_training.grpo.builders import make_model
from unit.podium_training.grpo.test_learner import GRAMMAR, VOCABULARY

RATE = 1e-3
SETTINGS: dict[str, Any] = {"lr": RATE, "weight_decay": 0.01}
Gradients = Callable[[int], Tensor]


def make_weights(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(shape, generator=torch.Generator().manual_seed(0)))


def noisy(step: int) -> Tensor:
    draw = torch.Generator().manual_seed(step)
    size = torch.logspace(-6, -2, 8 * BLOCK).view(8, BLOCK)
    return size * (1 + torch.randn(8, BLOCK, generator=draw))


def learn(optimizer: torch.optim.Optimizer, steps: range, gradients: Gradients) -> Tensor:
    weights: Tensor = optimizer.param_groups[0]["params"][0]
    for step in steps:
        weights.grad = gradients(step).clone()
        optimizer.step()
    return weights.detach().clone()


def test_weights_go_where_those_of_float32_averages_go() -> None:
    exact, near = make_weights(8, BLOCK), make_weights(8, BLOCK)
    before = exact.detach().clone()
    to = learn(torch.optim.AdamW([exact], **SETTINGS), range(200), noisy)
    found = learn(ByteAdamW([near], **SETTINGS), range(200), noisy)
    assert (found - to).norm() < 0.1 * (to - before).norm()


def test_averages_take_a_quarter_of_the_bytes() -> None:
    exact, near = make_weights(128, 512), make_weights(128, 512)
    sizes = []
    for optimizer in (torch.optim.AdamW([exact], **SETTINGS), ByteAdamW([near], **SETTINGS)):
        optimizer.param_groups[0]["params"][0].grad = torch.ones(128, 512)
        optimizer.step()
        [state] = optimizer.state.values()
        sizes.append(sum(each.nbytes for each in state.values()))
    assert sizes[1] < 0.27 * sizes[0]


def test_what_is_smaller_than_a_byte_shows_is_not_lost() -> None:
    """One weight keeps the scale of its block; the averages of the others fade all the same."""
    steps = 1500

    def fading(step: int) -> Tensor:
        gradient = torch.full((1, BLOCK), 0.0 if step else 1.0)
        gradient[0, 0] = 1.0
        return gradient

    near = ByteAdamW([make_weights(1, BLOCK)], **SETTINGS)
    learn(near, range(steps), fading)
    [state] = near.state.values()
    roots = (state["root"].float() + MIDDLE) * state["root_scale"]
    # After one step it is the root of 0.001; it falls by the root of 0.999.
    expected = 0.001**0.5 * 0.999 ** (steps / 2)
    assert roots[0, 1:].mean().item() == pytest.approx(expected, rel=0.15)


def test_nothing_is_divided_by_what_was_rounded_away() -> None:
    """A gradient far below its block's largest moves its weight no faster than that one."""
    size = torch.ones(1, BLOCK)
    size[0, 1:] = 1e-5
    weights = make_weights(1, BLOCK)
    before = weights.detach().clone()
    found = learn(ByteAdamW([weights], lr=RATE, weight_decay=0.0), range(50), lambda _: size)
    moved = (found - before).abs()
    assert moved[0, 1:].max() <= 1.01 * moved[0, 0]
    assert moved[0, 1:].min() > 0


@pytest.mark.parametrize("shape", [(3, BLOCK + 1), (BLOCK,)])
def test_rows_that_are_no_whole_blocks_are_exact(shape: tuple[int, ...]) -> None:
    exact, ours = make_weights(*shape), make_weights(*shape)
    gradient = make_weights(*shape).detach()
    to = learn(torch.optim.AdamW([exact], **SETTINGS), range(5), lambda _: gradient)
    assert torch.equal(learn(ByteAdamW([ours], **SETTINGS), range(5), lambda _: gradient), to)


def test_a_restart_gives_the_same_bits(tmp_path: Path) -> None:
    through, until, after = (make_weights(8, BLOCK) for _ in range(3))
    whole = ByteAdamW([through], **SETTINGS)
    learn(whole, range(6), noisy)
    first = ByteAdamW([until], **SETTINGS)
    learn(first, range(3), noisy)
    written = Checkpoint(3, {"weights": until.detach()}, first.state_dict(), {})
    found = load(save(tmp_path, written))
    assert differences(found, written) == []
    with torch.no_grad():
        after.copy_(found.weights["weights"])
    second = ByteAdamW([after], **SETTINGS)
    second.load_state_dict(found.optimizer)
    assert torch.equal(learn(second, range(3, 6), noisy), through)
    ends = [Checkpoint(6, {}, each.state_dict(), {}) for each in (second, whole)]
    assert differences(*ends) == []


def test_averages_of_the_other_kind_are_rejected() -> None:
    exact, near = (
        Learner(make_model(0, VOCABULARY), partial(kind, **SETTINGS), GRAMMAR, StepOptions())
        for kind in (torch.optim.AdamW, ByteAdamW)
    )
    for ours, theirs in ((exact, near), (near, exact)):
        with pytest.raises(InvalidConfig, match=r"step\.averages"):
            ours.restore(*theirs.gathered())
        ours.restore(*ours.gathered())
