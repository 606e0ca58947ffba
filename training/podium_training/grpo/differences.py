from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import keystr, tree_flatten_with_path

from podium_training.grpo.checkpoints import Checkpoint


def differences(again: Checkpoint, recorded: Checkpoint) -> list[str]:
    """One line for each tensor or number of weights and optimizer that is not the same."""
    ours, theirs = dict(_values(again)), dict(_values(recorded))
    names = [*ours, *(name for name in theirs if name not in ours)]
    faults = ((name, _fault(ours.get(name), theirs.get(name))) for name in names)
    return [f"{name} {fault}" for name, fault in faults if fault]


def _values(checkpoint: Checkpoint) -> Iterator[tuple[str, Any]]:
    yield from checkpoint.weights.items()
    for path, value in tree_flatten_with_path(checkpoint.optimizer)[0]:
        yield f"optimizer{keystr(path)}", value


def _fault(again: Any, recorded: Any) -> str | None:
    ours, theirs = _text(again), _text(recorded)
    if ours != theirs:
        return f"is {ours}, recorded {theirs}"
    # Their bytes: 0 and -0 are equal numbers, and no NaN equals itself.
    if not isinstance(again, Tensor) or torch.equal(_bytes(again), _bytes(recorded)):
        return None
    return f"differs by up to {float((again.double() - recorded.double()).abs().max()):.3g}"


def _text(value: Any) -> str:
    """All of a number, which `repr` writes without loss; of a tensor what it is, not its values."""
    if isinstance(value, Tensor):
        return f"{value.dtype} of shape {list(value.shape)}"
    return repr(value)


def _bytes(value: Tensor) -> Tensor:
    return value.contiguous().reshape(-1).view(torch.uint8)
