"""Checkpoints: weights, optimizer and the stream's position, whole or not there at all.

A checkpoint is written beside its place, its manifest last, and renamed into place. So what
is there is complete, and a digest detects corruption.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from podium_training.grpo.config import InvalidConfig
from podium_training.grpo.ending import Fault
from podium_training.grpo.process_group import outline

WEIGHTS, OPTIMIZER, STATE, MANIFEST = (
    "model.safetensors",
    "optimiser.pt",  # Not renamed: checkpoints on disk have it.
    "state.json",
    "manifest.json",
)
KEPT = 3


class DamagedCheckpoint(Fault):
    """A checkpoint is not what was written."""


@dataclass(frozen=True)
class Checkpoint:
    """Everything that decides what the next step does."""

    step: int
    weights: Mapping[str, Tensor]
    optimizer: dict[str, Any]
    state: dict[str, Any]
    """Position, open groups, counters: JSON."""

    def outline(self) -> "Checkpoint":
        weights, optimizer = tree_map(outline, (dict(self.weights), self.optimizer))
        return Checkpoint(self.step, weights, optimizer, {})


def require_weights_of(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Raises unless a checkpoint's weights, or their outlines, are those that the model learns.

    Raises InvalidConfig.
    """
    learnt = {name: each.shape for name, each in model.named_parameters() if each.requires_grad}
    if learnt != {name: each.shape for name, each in weights.items()}:
        raise InvalidConfig(
            "lora: the run's checkpoint has the weights of another adapter or model, or all weights"
            " instead of an adapter's; set `lora` and `model` back, or begin a run with another"
            " `output`"
        )


def save(folder: Path, checkpoint: Checkpoint) -> Path:
    final = path_of(folder, checkpoint.step)
    partial = folder / f".partial-{checkpoint.step:08d}"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    save_file(
        {name: value.contiguous() for name, value in checkpoint.weights.items()}, partial / WEIGHTS
    )
    torch.save(checkpoint.optimizer, partial / OPTIMIZER)
    (partial / STATE).write_text(json.dumps({"step": checkpoint.step, **checkpoint.state}))
    names = (WEIGHTS, OPTIMIZER, STATE)
    digests = {name: _durable_digest(partial / name) for name in names}
    (partial / MANIFEST).write_text(json.dumps(digests))
    _durable_digest(partial / MANIFEST)
    _move(partial, final)
    _prune(folder)
    return final


def path_of(folder: Path, step: int) -> Path:
    return folder / f"step-{step:08d}"


def kept_steps(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in folder.glob("step-*"))


def latest(folder: Path) -> Checkpoint | None:
    found = sorted(folder.glob("step-*"))
    return load(found[-1]) if found else None


def load(path: Path) -> Checkpoint:
    if damaged := _damaged(path):
        raise DamagedCheckpoint(
            f"{damaged} is not what was written; remove {path} to continue from the one before"
        )
    state = json.loads((path / STATE).read_text())
    return Checkpoint(
        step=state.pop("step"),
        weights=load_file(path / WEIGHTS),
        optimizer=torch.load(path / OPTIMIZER, weights_only=True),
        state=state,
    )


def _damaged(path: Path) -> Path | None:
    file = path / MANIFEST
    try:
        digests = json.loads(file.read_text())
        for name in (WEIGHTS, OPTIMIZER, STATE):
            file = path / name
            with file.open("rb") as content:
                # Not read whole: it may be as large as what the run has in memory.
                if hashlib.file_digest(content, "sha256").hexdigest() != digests[name]:
                    return file
    except (OSError, ValueError, LookupError, TypeError):
        return file
    return None


def _move(partial: Path, final: Path) -> None:
    # The same step again, after a kill between rename and prune, is the same content.
    shutil.rmtree(final, ignore_errors=True)
    partial.rename(final)
    descriptor = os.open(final.parent, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def _prune(folder: Path) -> None:
    for old in sorted(folder.glob("step-*"))[:-KEPT]:
        shutil.rmtree(old)


def _durable_digest(path: Path) -> str:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest()
