import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from podium.episodes.v1 import trajectory_pb2 as pb
from podium_training.grpo.checkpoints import (
    MANIFEST,
    OPTIMIZER,
    STATE,
    WEIGHTS,
    Checkpoint,
    DamagedCheckpoint,
    load,
    save,
)
from podium_training.grpo.data.dead_letters import RejectedRecords
from podium_training.grpo.data.envelopes import SCHEMA
from podium_training.grpo.data.episodes import GroupKey, Limits, Reason
from podium_training.grpo.data.groups import GroupAssembler
from podium_training.grpo.data.stream import LogRecord, Position
from podium_training.grpo.metrics.log import MetricsLog
from podium_training.grpo.metrics.progress import read_progress
from podium_training.grpo.trainer import Trainer, TrainerOptions
from unit.podium_training.grpo.builders import VOCABULARY
from unit.podium_training.grpo.trajectories import make_response, make_trajectory


def make_trainer(output: Path, row_tokens_max: int = 100) -> Trainer:
    """Takes no step: it has neither weights nor brokers."""
    return Trainer(
        learner=cast(Any, SimpleNamespace(check=lambda _: None)),
        reader=cast(Any, SimpleNamespace(position=Position({0: 0}), order=[])),
        assembler=GroupAssembler(),
        limits=Limits(VOCABULARY, row_tokens_max),
        options=TrainerOptions(steps=3, groups_per_step=4, checkpoint_every=1, patience_s=1),
        output=output,
        metrics=MetricsLog(output),
        aside=RejectedRecords(output, "topic"),
    )


def checkpoint_after(trainer: Trainer, *trajectories: pb.Trajectory) -> Checkpoint:
    values = [pb.TrajectoryRecord(trajectory=each).SerializeToString() for each in trajectories]
    trainer.learn(
        LogRecord(
            0, n, value, b"g1", {"digest": hashlib.sha256(value).hexdigest(), "schema": SCHEMA}
        )
        for n, value in enumerate(values)
    )
    return Checkpoint(trainer.step, {}, {}, trainer._state())


def test_an_open_group_goes_on_without_a_member_that_is_too_long_by_now(tmp_path: Path) -> None:
    long = make_response(prompt_token_ids=[3] * 20)
    members = make_trajectory("e1", group_size=3), make_trajectory("e2", response=long)
    checkpoint = checkpoint_after(make_trainer(tmp_path), *members)
    trainer = make_trainer(tmp_path, row_tokens_max=10)
    trainer.restore(checkpoint)
    group = trainer.assembler.open[GroupKey("acme", "g1")]
    assert ([each.id for each in group.members], group.tombstones) == (["e1"], 1)
    assert trainer.rejected == {Reason.TOO_LONG: 1}
    assert [each["key"] for each in trainer._state()["open"]] == [("acme", "g1")]


def test_what_was_left_out_before_the_last_step_is_not_counted_again(tmp_path: Path) -> None:
    unusable = [make_trajectory(f"e{n}", training_consent=False, group_id=f"g{n}") for n in "1234"]
    checkpoint = checkpoint_after(make_trainer(tmp_path), *unusable)
    before = read_progress(tmp_path)
    assert before is not None
    assert before.left_out == len(unusable)
    trainer = make_trainer(tmp_path)
    trainer.restore(checkpoint)
    checkpoint_after(trainer, make_trajectory("e5", training_consent=False, group_id="g5"))
    after = read_progress(tmp_path)
    assert after is not None
    assert after.left_out == 1


@pytest.mark.parametrize("name", [WEIGHTS, OPTIMIZER, STATE])
@pytest.mark.parametrize("content", [b"", b"[]", None])
def test_a_file_that_is_missing_or_damaged_is_named(
    name: str, content: bytes | None, tmp_path: Path
) -> None:
    path = saved(tmp_path)
    damage(path / name, content)
    with pytest.raises(DamagedCheckpoint, match=f"{name} is not what was written; remove {path}"):
        load(path)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", None])
def test_a_manifest_names_every_file(content: bytes | None, tmp_path: Path) -> None:
    path = saved(tmp_path)
    damage(path / MANIFEST, content)
    with pytest.raises(DamagedCheckpoint, match="is not what was written"):
        load(path)


def test_no_file_is_read_whole_to_check_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path)
    monkeypatch.delattr(Path, "read_bytes")
    assert load(path).step == 4


def saved(folder: Path) -> Path:
    path = save(folder, Checkpoint(4, {"weight": torch.ones(2)}, {"state": {}}, {"seen": []}))
    assert load(path).state == {"seen": []}
    return path


def damage(file: Path, content: bytes | None) -> None:
    assert file.exists()
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
