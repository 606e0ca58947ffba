"""The processes of one run: what they share, and how weights are divided among them.

Every process computes a part of each batch. Weights, gradients and the optimiser's state are
divided by FSDP2 (`fully_shard`), so each holds a share and gathers a layer when it computes.
Outside `torchrun` a team is one process and nothing here touches the network.
"""

import os
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from grpo.forward import Scorer

T = TypeVar("T")


@dataclass(frozen=True)
class Team:
    """Who this process is among how many."""

    rank: int = 0
    size: int = 1

    def shared(self, value: T) -> T:
        """What the first process has, in all of them; a collective call."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def added_up(self, values: Tensor) -> Tensor:
        """The sum over all processes, in all of them; a collective call."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def largest(self, values: Tensor) -> Tensor:
        """The greatest over all processes, in all of them; a collective call."""
        if self.size > 1:
            dist.all_reduce(values, op=dist.ReduceOp.MAX)
        return values

    def divide(self, scorer: Scorer) -> Scorer:
        """Divides a policy's weights: one part for each layer, one for all the rest."""
        if self.size > 1:
            for layer in scorer.model.get_decoder().layers:
                fully_shard(layer)
            fully_shard(scorer)
        return scorer


def join_team() -> Team:
    """The team `torchrun` made this process a member of; one process without it."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return Team()
    if not dist.is_initialized():
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return Team(dist.get_rank(), size)


def whole(value: Any) -> Any:
    """A tensor with all its parts; anything else as it is. A collective call."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def divided(value: Tensor, like: Tensor) -> Tensor:
    """A whole tensor, divided as another is. A collective call."""
    if not isinstance(like, DTensor):
        return value
    return distribute_tensor(value, like.device_mesh, like.placements)
