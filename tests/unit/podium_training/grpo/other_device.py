"""A device that no machine needs to have: it computes as the CPU does, and does not mix with it.

Its tensors say that they are on `meta`, so that code which asks for a tensor's device makes new
ones there; their values lie in ordinary tensors. As on a GPU, an operation on both devices raises,
save with a number or to copy.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

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
