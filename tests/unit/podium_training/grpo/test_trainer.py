import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from jaxtyping import TypeCheckError

from podium.episodes.v1 import trajectory_pb2 as pb
from podium_kit.stream import BrokerUnavailable, KafkaSettings
from podium_training.grpo.checkpoints import Checkpoint, latest
from podium_training.grpo.data.dead_letters import RejectedRecords
from podium_training.grpo.data.envelopes import SCHEMA
from podium_training.grpo.data.episodes import GroupKey, Limits
from podium_training.grpo.data.feedback import AwaitedFeedback
from podium_training.grpo.data.groups import GroupAssembler
from podium_training.grpo.data.stream import LogCut, LogRecord, Position
from podium_training.grpo.metrics.log import MetricsLog
from podium_training.grpo.objective.advantages import rloo
from podium_training.grpo.trainer import Trainer, TrainerOptions
from unit.podium_training.grpo.trajectories import make_trajectory

AWAY = BrokerUnavailable(KafkaSettings(bootstrap="127.0.0.1:1"), TimeoutError())
ACME, GLOBEX = GroupKey("acme", "batch-1"), GroupKey("globex", "batch-1")


def make_trainer(folder: Path, awaited: AwaitedFeedback | None = None) -> Trainer:
    learner = SimpleNamespace(check=lambda episode: None, gathered=lambda: ({}, {}))
    return Trainer(
        learner=cast(Any, learner),
        reader=cast(Any, SimpleNamespace(position=Position({}), order=[])),
        assembler=GroupAssembler(),
        limits=Limits(vocabulary=64),
        options=TrainerOptions(1, 100, 1, 1.0),
        output=folder,
        metrics=MetricsLog(folder),
        aside=RejectedRecords(folder, "topic"),
        awaited=awaited,
    )


def make_record(**message: Any) -> LogRecord:
    value = pb.TrajectoryRecord(**message).SerializeToString()
    headers = {"digest": hashlib.sha256(value).hexdigest(), "schema": SCHEMA}
    return LogRecord(0, 0, value, b"batch-1", headers)


def member(of: GroupKey, number: int, size: int = 3) -> LogRecord:
    found = make_trajectory(
        f"{of.tenant}-{number}",
        solved=number == 0,
        tenant=of.tenant,
        group_id=of.id,
        group_size=size,
    )
    return make_record(trajectory=found)


def closing(of: GroupKey) -> LogRecord:
    return make_record(group_closed=pb.GroupClosed(group_id=of.id, tenant=of.tenant))


def test_a_tenant_closes_and_completes_its_own_groups_alone(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path)
    lost = pb.TrajectoryReference(episode_id="large", tenant="globex", group_id="batch-1")
    members = [member(of, number) for number in range(2) for of in (ACME, GLOBEX)]
    trainer.learn([*members, closing(GLOBEX)])
    assert [group.key for group in trainer.pending] == [GLOBEX]
    trainer.learn([member(GLOBEX, 2), make_record(reference=lost)])
    assert list(trainer.assembler.open) == [ACME, GLOBEX]
    trainer.learn([member(ACME, 2)])
    assert [group.key for group in trainer.pending] == [GLOBEX, ACME]


def test_a_damaged_record_leaves_its_group_to_what_closes_it(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path)
    damaged = LogRecord(0, 0, b"\xff", b"batch-1", {"record-id": "trajectory:acme-2:v1"})
    trainer.learn([member(ACME, 0), member(ACME, 1), damaged])
    assert list(trainer.assembler.open) == [ACME]
    trainer.learn([closing(ACME)])
    assert [group.key for group in trainer.pending] == [ACME]


def half_read(folder: Path) -> Checkpoint:
    """A member of each tenant's group waits for its score; one of acme's has it."""
    trainer = make_trainer(folder, AwaitedFeedback())
    given = pb.FeedbackGiven(episode_id="acme-0", group_id="batch-1", tenant="acme")
    given.feedback.score = 1
    members = [member(ACME, 0), member(ACME, 1), member(GLOBEX, 0)]
    trainer.learn([*members, make_record(feedback_given=given), closing(ACME)])
    return trainer.checkpoint()


def resumed(folder: Path, checkpoint: Checkpoint) -> Trainer:
    trainer = make_trainer(folder, AwaitedFeedback())
    trainer.restore(checkpoint)
    return trainer


def test_a_checkpoint_holds_open_groups_by_tenant(tmp_path: Path) -> None:
    half_read(tmp_path)
    checkpoint = latest(tmp_path / "checkpoints")
    assert checkpoint is not None
    again = resumed(tmp_path, checkpoint)
    assert list(again.assembler.open) == [ACME]
    assert again.awaited is not None
    assert again.awaited.closed == {ACME}
    assert json.loads(json.dumps(again.checkpoint().state)) == checkpoint.state


def test_a_checkpoint_of_an_earlier_podium_names_groups_by_id_alone(tmp_path: Path) -> None:
    checkpoint = half_read(tmp_path)
    (group,) = checkpoint.state["open"]
    group.pop("key")
    empty = {"size": 0, "tombstones": 1, "members": []}
    checkpoint.state.update(open={"batch-1": group, "batch-2": empty}, closed=["batch-1"])
    again = resumed(tmp_path, checkpoint)
    assert list(again.assembler.open) == list(again.records) == [ACME]
    assert again.awaited is not None
    assert ACME in again.awaited.closed


@pytest.mark.parametrize("error", [AWAY, LogCut("it was emptied")])
def test_the_last_step_is_saved_when_the_log_cannot_be_read(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def records(*_: Any) -> Any:
        raise error

    trainer = make_trainer(tmp_path)
    trainer.options = TrainerOptions(3, 100, 3, 1.0)
    monkeypatch.setattr(trainer.reader, "records", records, raising=False)
    trainer.step, trainer.unsaved = 2, trainer._state()
    with pytest.raises(type(error)):
        trainer.run()
    checkpoint = latest(tmp_path / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.step == 2


def test_a_step_is_not_begun_while_brokers_do_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lag() -> int:
        raise AWAY

    trainer = make_trainer(tmp_path)
    trainer.options = TrainerOptions(3, 1, 3, 1.0)
    monkeypatch.setattr(trainer.reader, "lag", lag, raising=False)
    with pytest.raises(BrokerUnavailable):
        trainer.learn([member(ACME, number) for number in range(3)])
    assert (trainer.step, len(trainer.pending)) == (0, 1)


def test_a_tensor_of_another_shape_is_rejected() -> None:
    assert rloo(torch.tensor([1.0, 0.0])).tolist() == [1.0, -1.0]
    with pytest.raises(TypeCheckError, match="members"):
        rloo(torch.ones(2, 2))
