"""The trainer's loop, its checkpoints and their differences."""

import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from jaxtyping import TypeCheckError
from torch import Tensor

from podium.episodes.v1 import trajectory_pb2 as pb
from podium_kit.stream import BrokerUnavailable, KafkaSettings
from podium_training.grpo.checkpoints import (
    MANIFEST,
    OPTIMIZER,
    STATE,
    WEIGHTS,
    Checkpoint,
    DamagedCheckpoint,
    latest,
    load,
    save,
)
from podium_training.grpo.config import SourceConfig
from podium_training.grpo.data.dead_letters import RejectedRecords
from podium_training.grpo.data.envelopes import SCHEMA
from podium_training.grpo.data.episodes import GroupKey, Limits, Reason
from podium_training.grpo.data.feedback import AwaitedFeedback
from podium_training.grpo.data.groups import GroupAssembler
from podium_training.grpo.data.stream import LogCut, LogRecord, Position
from podium_training.grpo.metrics.log import MetricsLog
from podium_training.grpo.metrics.progress import read_progress
from podium_training.grpo.objective.advantages import rloo
from podium_training.grpo.replay import differences
from podium_training.grpo.trainer import Trainer, TrainerOptions
from unit.podium_training.grpo.builders import VOCABULARY, make_response, make_trajectory

AWAY = BrokerUnavailable(KafkaSettings(bootstrap="127.0.0.1:1"), TimeoutError())
ACME, GLOBEX = GroupKey("acme", "batch-1"), GroupKey("globex", "batch-1")


def make_trainer(
    folder: Path, awaited: AwaitedFeedback | None = None, row_tokens_max: int = 100
) -> Trainer:
    """Makes a trainer that takes no step: it has neither weights nor brokers."""
    learner = SimpleNamespace(check=lambda episode: None, gathered=lambda: ({}, {}))
    return Trainer(
        learner=cast(Any, learner),
        reader=cast(Any, SimpleNamespace(position=Position({}), order=[])),
        assembler=GroupAssembler(),
        limits=Limits(VOCABULARY, row_tokens_max),
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


def test_a_run_learns_from_its_own_tenant_and_policy_alone(tmp_path: Path) -> None:
    def played(policy: str, of: GroupKey, number: int) -> LogRecord:
        found = make_trajectory(
            f"{policy}-{of.tenant}-{number}",
            solved=number == 0,
            tenant=of.tenant,
            policy_name=policy,
            group_id=of.id,
            group_size=2,
        )
        return make_record(trajectory=found)

    trainer = make_trainer(tmp_path)
    trainer.source = SourceConfig(tenant="acme", policy="users")
    others = [played("users", GLOBEX, 0), played("private", GroupKey("acme", "batch-2"), 0)]
    large = pb.TrajectoryReference(episode_id="large", tenant="globex", digest="d")
    record = pb.TrajectoryRecord(reference=large).SerializeToString()
    reference = LogRecord(0, 0, record, b"batch-1", {"digest": "d", "schema": SCHEMA})
    trainer.learn([*others, reference, closing(GLOBEX)])
    assert not trainer.assembler.open and not trainer.rejected
    trainer.learn([played("users", ACME, 0), played("users", ACME, 1)])
    assert [group.key for group in trainer.pending] == [ACME]


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


def checkpoint_after(trainer: Trainer, *trajectories: pb.Trajectory) -> Checkpoint:
    trainer.learn(make_record(trajectory=each) for each in trajectories)
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


def make_checkpoint(weight: Tensor | None = None, rate: float = 0.1) -> Checkpoint:
    moments: dict[str, Any] = {"step": torch.tensor(1.0), "exp_avg": torch.ones(2)}
    optimizer = {"state": {0: moments}, "param_groups": [{"lr": rate, "betas": (0.9, 0.99)}]}
    weight = torch.tensor([0.0, math.nan]) if weight is None else weight
    return Checkpoint(1, {"layer.weight": weight}, optimizer, {})


def test_the_same_bits_are_no_difference_even_where_they_are_no_number() -> None:
    assert differences(make_checkpoint(), make_checkpoint()) == []


@pytest.mark.parametrize(
    ("weight", "told"),
    [
        (torch.tensor([-0.0, math.nan]), "layer.weight differs"),
        (torch.tensor([0.5, 0.0]), "layer.weight differs"),
        (torch.zeros(3), "recorded torch.float32 of shape [3]"),
        (torch.zeros(2).bfloat16(), "recorded torch.bfloat16 of shape [2]"),
    ],
)
def test_a_changed_bit_of_a_weight_is_reported(weight: Tensor, told: str) -> None:
    (found,) = differences(make_checkpoint(), make_checkpoint(weight))
    assert told in found


def test_differences_of_the_optimizer_name_their_place() -> None:
    changed = make_checkpoint(rate=0.2)
    changed.optimizer["state"][0]["exp_avg"] = torch.tensor([1.0, 1.5])
    assert differences(make_checkpoint(), changed) == [
        "optimizer['state'][0]['exp_avg'] differs by up to 0.5",
        "optimizer['param_groups'][0]['lr'] is 0.1, recorded 0.2",
    ]


def test_a_tensor_that_only_one_has_is_reported() -> None:
    more = replace(make_checkpoint(), weights={**make_checkpoint().weights, "new": torch.ones(1)})
    (found,) = differences(make_checkpoint(), more)
    assert found == "new is None, recorded torch.float32 of shape [1]"
