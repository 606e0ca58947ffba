"""The processes of one run: what they share, and how weights are divided among them.

Every process computes a part of each batch. Weights, gradients and the optimizer's state are
divided by FSDP2 (`fully_shard`), so each holds a share and gathers a layer when it computes.
Outside `torchrun` a team is one process and nothing here touches the network.
"""

import os
from dataclasses import dataclass
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
class Team:
    """Who this process is among how many."""

    rank: int = 0
    size: int = 1
    device: torch.device = CPU
    """Where this process computes; collective calls happen there, too."""

    def shared(self, value: T) -> T:
        """What the first process has, in all of them; a collective call."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, device=self.device)
        return box[0]

    def added_up(self, values: Tensor) -> Tensor:
        """The sum over all processes, in all of them; a collective call."""
        if self.size > 1:
            values = values.to(self.device)
            dist.all_reduce(values)
        return values

    def largest(self, values: Tensor) -> Tensor:
        """The greatest over all processes, in all of them; a collective call."""
        if self.size > 1:
            values = values.to(self.device)
            dist.all_reduce(values, op=dist.ReduceOp.MAX)
        return values

    def divide(self, scorer: Scorer) -> Scorer:
        """Moves a policy's weights to the device, divided: each layer, then all the rest.

        Layer by layer, so that a device need not hold them all at once.
        """
        if self.size == 1:
            return scorer.to(self.device)
        mesh = init_device_mesh(self.device.type, (self.size,))
        for layer in scorer.model.get_decoder().layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(scorer, mesh=mesh)
        return scorer


def join_team(device: torch.device) -> Team:
    """The team `torchrun` made this process a member of; one process without it."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return Team(device=device)
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return Team(dist.get_rank(), size, device)


def whole(value: Any) -> Any:
    """A tensor with all its parts, in main memory; anything else as it is. A collective call."""
    found = value.full_tensor() if isinstance(value, DTensor) else value
    return found.cpu() if isinstance(found, Tensor) else found


def divided(value: Tensor, like: Tensor) -> Tensor:
    """A whole tensor, divided as another is. A collective call."""
    if not isinstance(like, DTensor):
        return value
    return distribute_tensor(value, like.device_mesh, like.placements)
