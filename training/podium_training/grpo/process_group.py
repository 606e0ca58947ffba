"""The processes of one run: what they share, and how weights are sharded among them.

Every process computes a part of each batch. Weights, gradients and the optimizer's state are
sharded by FSDP2 (`fully_shard`), so each holds a share and gathers a layer when it computes.
Outside `torchrun` a group is one process and nothing here touches the network.
"""

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from podium_training.grpo.model.forward import Scorer

T = TypeVar("T")
CPU = torch.device("cpu")


@dataclass(frozen=True)
class ProcessGroup:
    rank: int = 0
    size: int = 1
    device: torch.device = CPU
    """Where this process computes; collective calls happen there, too."""

    def broadcast(self, value: T) -> T:
        """Returns the first process's value in all of them; a collective call."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, device=self.device)
        return box[0]

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes, in all of them; a collective call."""
        if self.size > 1:
            values = values.to(self.device)
            dist.all_reduce(values)
        return values

    def max(self, values: Tensor) -> Tensor:
        """The greatest over all processes, in all of them; a collective call."""
        if self.size > 1:
            values = values.to(self.device)
            dist.all_reduce(values, op=dist.ReduceOp.MAX)
        return values

    def shard(self, scorer: Scorer) -> Scorer:
        """Moves a policy's weights to the device, sharded: each layer, then all the rest.

        Layer by layer, so that a device need not hold them all at once.
        """
        if self.size == 1:
            return scorer.to(self.device)
        mesh = init_device_mesh(self.device.type, (self.size,))
        for layer in scorer.model.get_decoder().layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(scorer, mesh=mesh)
        return scorer


def join_process_group(device: torch.device, waits: timedelta) -> ProcessGroup:
    """The group `torchrun` made this process a member of; one process without it.

    A collective call of one process waits so long for the others. Those that die are noticed by
    torchrun, at once.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return ProcessGroup(device=device)
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=waits)
    return ProcessGroup(dist.get_rank(), size, device)


def gathered(value: Any, *, kept: bool) -> Any:
    """A tensor with all its parts, in main memory; anything else as it is. A collective call.

    Where it is not kept its shape alone remains: a copy for each process of a node is too much.
    """
    found = value.full_tensor() if isinstance(value, DTensor) else value
    if not isinstance(found, Tensor):
        return found
    return found.cpu() if kept else outline(found)


def outline(value: Any) -> Any:
    """Returns the shape of a tensor with dimensions; anything else unchanged."""
    return value.to("meta") if isinstance(value, Tensor) and value.ndim else value


def sharded_like(value: Tensor, like: Tensor) -> Tensor:
    """A whole tensor of the first process, sharded as another is. A collective call.

    The other processes need its outline alone.
    """
    if not isinstance(like, DTensor):
        return value
    held = torch.empty_like(value, device=CPU) if value.is_meta else value
    return distribute_tensor(held, like.device_mesh, like.placements)
