"""A checkpoint computed again from the one before it and the log, and compared bit for bit.

What a step does is decided by the checkpoint, the configuration, and the records in the order in
which they were read, which the later checkpoint records. So where the bits differ, a checkpoint
was changed, or the configuration, the software or the processor is another.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import keystr, tree_flatten_with_path

from podium_training.grpo.checkpoints import Checkpoint, kept_steps, latest, load, path_of
from podium_training.grpo.config import InvalidConfig, RunConfig
from podium_training.grpo.data.stream import LogCut, LogReader
from podium_training.grpo.ending import Fault
from podium_training.grpo.learner import Learner
from podium_training.grpo.process_group import ProcessGroup
from podium_training.grpo.run import join, make_learner, make_trainer, position_of

SHOWN_MAX = 5


class CannotReplay(Fault):
    """The data that the steps were computed from is gone."""


@dataclass(frozen=True)
class Replayed:
    since: int
    step: int
    differences: list[str]
    """One for each tensor or number that differs; empty: the same bits."""

    def __str__(self) -> str:
        if not self.differences:
            return f"steps {self.since + 1} to {self.step} gave the same bits again"
        more = len(self.differences) - SHOWN_MAX
        shown = self.differences[:SHOWN_MAX] + ([f"and {more} more"] if more > 0 else [])
        return "\n  ".join([f"steps {self.since + 1} to {self.step} gave other bits:", *shown])


def replay(config: RunConfig, step: int | None = None) -> Replayed:
    """The steps up to a step's checkpoint, the newest by default; the run stays as it is.

    Raises CannotReplay, InvalidConfig and DamagedCheckpoint.
    """
    if config.processes > 1:
        raise InvalidConfig("a run of several processes cannot be replayed yet")
    processes = join(config)
    before, after = _span(config.output / "checkpoints", step)
    learner = make_learner(config, processes)
    learner.restore(before.weights, before.optimizer)
    with TemporaryDirectory() as folder:
        again = _again(config.model_copy(update={"output": Path(folder)}), learner, before, after)
    if again is None or again.step != after.step:
        found = [f"under this configuration the log does not lead to step {after.step}"]
    else:
        found = differences(again, after)
    return Replayed(before.step, after.step, found)


def _span(folder: Path, step: int | None) -> tuple[Checkpoint, Checkpoint]:
    kept = kept_steps(folder)
    wanted = step if step is not None else max(kept, default=0)
    earlier = [each for each in kept if each < wanted]
    if wanted not in kept or not earlier:
        can = ", ".join(map(str, kept[1:])) or "none yet"
        raise CannotReplay(
            f"a replay needs the checkpoint of its step and one before it, and {folder} has"
            f" {kept or 'none'}; steps that can be replayed: {can}"
        )
    return load(path_of(folder, earlier[-1])), load(path_of(folder, wanted))


def _again(
    config: RunConfig, learner: Learner, before: Checkpoint, after: Checkpoint
) -> Checkpoint | None:
    """The checkpoint that the steps lead to; None when they lead to none."""
    order = _order(before, after)
    try:
        with closing(LogReader(config.stream, config.stream.topic, position_of(before))) as reader:
            trainer = make_trainer(config, learner, reader, ProcessGroup())
            # Whatever the interval: this step, and none before it.
            trainer.options = replace(trainer.options, checkpoint_every=after.step)
            trainer.restore(before)
            trainer.learn(reader.records_again(order))
    except LogCut as error:
        raise CannotReplay(
            f"the log no longer holds what steps {before.step + 1} to {after.step} were computed"
            " from; replay a newer step, or let the topic's retention be longer"
        ) from error
    return latest(config.output / "checkpoints")


def _order(before: Checkpoint, after: Checkpoint) -> list[int]:
    order: list[int] | None = after.state.get("order")
    if order is None:
        raise CannotReplay(
            f"the checkpoint of step {after.step} has no record order:"
            " an earlier Podium wrote it; replay a later checkpoint"
        )
    began, ended = position_of(before).offsets, position_of(after).offsets
    if any(began.get(p, 0) + order.count(p) != end for p, end in ended.items()):
        raise CannotReplay(
            f"records between steps {before.step} and {after.step} were read before a checkpoint"
            " that is gone, or skipped as lost; replay another step"
        )
    return order


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
