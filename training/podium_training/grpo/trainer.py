"""The loop: records to episodes to groups to steps, and a checkpoint after them."""

import base64
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

from podium.episodes.v1 import feedback_pb2
from podium.episodes.v1 import trajectory_pb2 as pb
from podium_kit.stream import BrokerUnavailable
from podium_training.grpo.checkpoints import Checkpoint, save
from podium_training.grpo.config import SourceConfig
from podium_training.grpo.data.convert import episode_from_proto
from podium_training.grpo.data.dead_letters import RejectedRecords
from podium_training.grpo.data.envelopes import open_record
from podium_training.grpo.data.episodes import Episode, GroupKey, Limits, Reason, Rejected
from podium_training.grpo.data.feedback import AwaitedFeedback, judged_by
from podium_training.grpo.data.groups import (
    SIZE_UNKNOWN,
    Group,
    GroupAssembler,
    OpenGroup,
    compared,
)
from podium_training.grpo.data.left_out import LeftOut
from podium_training.grpo.data.stream import LogCut, LogReader, LogRecord
from podium_training.grpo.ending import Interrupted
from podium_training.grpo.following import Done, Failed, NotPublished, Plan
from podium_training.grpo.learner import Learner
from podium_training.grpo.metrics.batch import batch_metrics
from podium_training.grpo.metrics.log import MetricsLog
from podium_training.grpo.metrics.progress import Progress, write_progress
from podium_training.grpo.process_group import ProcessGroup

log = logging.getLogger(__name__)

Publish = Callable[[Checkpoint], object]


@dataclass(frozen=True)
class TrainerOptions:
    steps: int
    groups_per_step: int
    checkpoint_every: int
    patience_s: float
    decay_start: float = 1.0
    """Share of the steps taken at the full learning rate."""

    def rate(self, step: int) -> float:
        """Share of the learning rate for a step, from 1: a straight line down at the end."""
        falling = self.steps * (1 - self.decay_start)
        return min(1.0, (self.steps - step + 1) / falling) if falling else 1.0


@dataclass
class Trainer:
    """Learns from a log; everything it knows besides the weights is in `state`."""

    learner: Learner
    reader: LogReader
    assembler: GroupAssembler
    limits: Limits
    options: TrainerOptions
    output: Path
    metrics: MetricsLog
    aside: RejectedRecords
    processes: ProcessGroup = field(default_factory=ProcessGroup)
    publish: Publish | None = None
    publish_every: int = 1
    """Checkpoints between two versions; the last step is always one."""
    source: SourceConfig | None = None
    """Tenants and policies whose episodes are read; None: those of all."""
    awaited: AwaitedFeedback | None = None
    """Where feedback is the outcome; None: checks are."""
    step: int = 0
    pending: list[Group] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)
    records: dict[GroupKey, dict[str, bytes]] = field(default_factory=dict)
    """Trajectories of open groups, by group and episode, as they came."""
    left_out: LeftOut = field(init=False)
    stop: Event = field(default_factory=Event)
    """Set to end the run after the step it is in."""
    unsaved: dict[str, Any] | None = None
    """The state after the last step, if no checkpoint holds it."""

    def __post_init__(self) -> None:
        self.left_out = LeftOut(self.options.groups_per_step)

    def run(self) -> int:
        """Takes steps until there are enough or the log stays silent; the steps taken in all.

        Raises Interrupted when it is stopped before, BrokerUnavailable, and LogCut; the last step
        has a checkpoint then, too.
        """
        # What is there is of an earlier log, where that was emptied.
        self._write_progress()
        if self.step < self.options.steps:
            try:
                self.learn(self.reader.records(self.options.patience_s, self.stop))
            except (BrokerUnavailable, LogCut):
                # Brokers are asked between steps alone: the others wait for a word.
                self._end(stopped=True)
                raise
        stopped = self.stop.is_set() and self.step < self.options.steps
        self._end(stopped)
        if stopped:
            raise Interrupted(self.step)
        unused = {str(k): count for k, count in self._not_used().items()}
        log.info("step %d is the last; not used: %s", self.step, unused or "nothing")
        return self.step

    def _end(self, stopped: bool) -> None:
        self.processes.broadcast(Done(self.step, self.unsaved is not None, stopped))
        if self.unsaved is not None:
            # What was read since that step will be read again.
            self._save(self.unsaved)

    def learn(self, records: Iterable[LogRecord]) -> None:
        for record in records:
            group = self._take(record)
            if group is not None and self.assembler.admits(group, self.step):
                self.pending.append(group)
            self._forget()
            if len(self.pending) >= self.options.groups_per_step:
                self._take_step()
            self._write_progress()
            if self.step >= self.options.steps:
                break

    def _take(self, record: LogRecord) -> Group | None:
        try:
            message = open_record(record)
        except Rejected as rejection:
            # Its tenant is not known for sure, so its group stays open until that is closed.
            self._reject(rejection, record)
            return None
        if self._is_foreign(message):
            return None
        if message.HasField("trajectory"):
            return self._take_trajectory(message.trajectory, record)
        if message.HasField("group_closed"):
            # Every member has finished: no more will arrive.
            return self._close(_group_of(message.group_closed))
        if message.HasField("feedback_given"):
            return self._take_feedback(message.feedback_given, record)
        found = message.reference
        self._reject(Rejected(Reason.TOO_LONG, f"{found.size_bytes} bytes"), record)
        return self.assembler.mark_missing(found.episode_id, _group_of(found), SIZE_UNKNOWN)

    def _is_foreign(self, message: pb.TrajectoryRecord) -> bool:
        """Returns whether a record is of episodes that the run does not learn from."""
        if self.source is None:
            return False
        found = message.trajectory
        if not message.HasField("trajectory"):
            return message.HasField("reference") and message.reference.tenant != self.source.tenant
        return (found.tenant, found.policy_name) != (self.source.tenant, self.source.policy)

    def _take_trajectory(self, found: pb.Trajectory, record: LogRecord) -> Group | None:
        if self.awaited is None:
            return self._add(found, record)
        # Whether it may be used is known now; a score of 0 stands for the one to come.
        zero = pb.FeedbackGiven(feedback=feedback_pb2.Feedback(score=0))
        if self._usable(judged_by(found, zero), record) is None:
            return self._miss(found)
        if found.episode_id in self.assembler.seen or not (late := self.awaited.keep(found)):
            return None
        self.rejected[Reason.NOT_JUDGED] += 1
        log.info("episode %s is given up: nobody scored it in time", late.episode_id)
        return self._miss(late)

    def _take_feedback(self, given: pb.FeedbackGiven, record: LogRecord) -> Group | None:
        found = self.awaited and self.awaited.scored(given)
        return self._add(found, record) if found else None

    def _add(self, found: pb.Trajectory, record: LogRecord) -> Group | None:
        episode = self._usable(found, record)
        if episode is None:
            return self._miss(found)
        of_group = self.records.setdefault(episode.group, {})
        of_group[episode.id] = found.SerializeToString(deterministic=True)
        return self.assembler.add(episode) or self._close_late(episode.group)

    def _miss(self, found: pb.Trajectory) -> Group | None:
        key = _group_of(found)
        group = self.assembler.mark_missing(found.episode_id, key, found.group_size)
        return group or self._close_late(key)

    def _close(self, key: GroupKey) -> Group | None:
        if self.awaited is not None and not self.awaited.close(key):
            return None
        return self.assembler.close(key)

    def _close_late(self, key: GroupKey) -> Group | None:
        """A group that was closed while members waited for their scores."""
        late = self.awaited is not None and key in self.awaited.closed
        return self._close(key) if late else None

    def _usable(self, found: pb.Trajectory, record: LogRecord) -> Episode | None:
        try:
            episode = episode_from_proto(found, self.limits)
            self.learner.check(episode)
        except Rejected as rejection:
            self._reject(rejection, record)
            return None
        return episode

    def _reject(self, rejection: Rejected, record: LogRecord) -> None:
        self.rejected[rejection.reason] += 1
        self.aside.keep(record, rejection.reason, rejection.detail)
        log.info("record %d/%d is not used: %s", record.partition, record.offset, rejection.reason)

    def _take_step(self) -> None:
        # Before anything changes: brokers may not answer.
        lag = self.reader.lag()
        self.step += 1
        due = self.step % self.options.checkpoint_every == 0 or self.step == self.options.steps
        rate = self.options.rate(self.step)
        groups = compared(self.pending, self.assembler.estimator, self.assembler.rules.reward_rules)
        self.pending = []
        self.left_out.step_taken(self._not_used())
        self.processes.broadcast(Plan(tuple(groups), due, rate))
        result = self.learner.step(groups, rate)
        learnt = result.metrics | batch_metrics(groups)
        self._write_metrics(learnt | {"applied": float(result.applied), "lag": float(lag)})
        solved = f"reward {learnt['reward_mean']:.3g}, {learnt['reward_solved']:.0%} solved"
        log.info("step %d of %d: %s", self.step, self.options.steps, solved)
        if due:
            self._publish(self.checkpoint())
        else:
            self.unsaved = self._state()

    def _publish(self, checkpoint: Checkpoint) -> None:
        """After the checkpoint: what is published can be continued from. Raises NotPublished."""
        between = self.options.checkpoint_every * self.publish_every
        due = self.step % between == 0 or self.step == self.options.steps
        if self.publish is None or not due:
            return
        try:
            self.publish(checkpoint)
        except Exception as error:  # Whatever it is, the others wait for a word.
            failed = Failed(f"the version of step {self.step} could not be published: {error}")
            self.processes.broadcast(failed)
            raise NotPublished(failed.reason) from error

    def _forget(self) -> None:
        """Keeps the records of groups that are still open alone."""
        for key in self.records.keys() - self.assembler.open.keys():
            del self.records[key]

    def _write_metrics(self, metrics: Mapping[str, float]) -> None:
        line = dict(metrics)
        line |= {f"rejected {name}": float(count) for name, count in self.rejected.items()}
        line |= {f"dropped {name}": float(count) for name, count in self.assembler.dropped.items()}
        self.metrics.write(self.step, line)

    def _write_progress(self) -> None:
        unused = self._not_used()
        progress = Progress(
            step=self.step,
            steps=self.options.steps,
            groups=len(self.pending),
            groups_per_step=self.options.groups_per_step,
            offsets=dict(self.reader.position.offsets),
            left_out=self.left_out.count(unused, self.step),
            reasons=self.left_out.reasons(unused),
        )
        write_progress(self.output, progress)

    def _not_used(self) -> Counter[str]:
        return self.rejected + self.assembler.dropped

    def checkpoint(self) -> Checkpoint:
        written = self._save(self._state())
        self.reader.order.clear()
        return written

    def _save(self, state: dict[str, Any]) -> Checkpoint:
        written = Checkpoint(self.step, *self.learner.gathered(), state)
        save(self.output / "checkpoints", written)
        self.unsaved = None
        return written

    def _state(self) -> dict[str, Any]:
        return {
            "offsets": {str(p): offset for p, offset in self.reader.position.offsets.items()},
            "turn": self.reader.position.turn,
            # Since the checkpoint before: a log that grows cannot reproduce the order.
            "order": list(self.reader.order),
            "open": [
                {
                    "key": key,
                    "size": group.size,
                    "tombstones": group.tombstones,
                    "members": [self._encoded(key, member.id) for member in group.members],
                }
                for key, group in self.assembler.open.items()
            ],
            "waiting": [_encoded(each) for each in self._waiting()],
            "closed": sorted(self.awaited.closed) if self.awaited else [],
            "seen": list(self.assembler.seen),
            "dropped": dict(self.assembler.dropped),
            "rejected": dict(self.rejected),
        }

    def _encoded(self, key: GroupKey, episode_id: str) -> str:
        return base64.b64encode(self.records[key][episode_id]).decode()

    def _waiting(self) -> Iterable[pb.Trajectory]:
        return self.awaited.waiting.values() if self.awaited else ()

    def skip_lost(self) -> None:
        """Counts records that will not be read. A group that misses one of them waits for what
        closes it.
        """
        self.aside.forget(self.reader.emptied)
        for partition in self.reader.emptied:
            log.warning("partition %d was emptied and is read from its start", partition)
        for partition, count in self.reader.lost.items():
            self.rejected[Reason.LOST] += count
            log.warning("%d records of partition %d are lost", count, partition)

    def restore(self, checkpoint: Checkpoint) -> None:
        self.step = checkpoint.step
        state = checkpoint.state
        self.assembler.seen.update(dict.fromkeys(state["seen"]))
        self.assembler.dropped.update(state["dropped"])
        self.rejected.update(state["rejected"])
        self.left_out.step_taken(self._not_used())
        groups = state["open"]
        if isinstance(groups, dict):
            # By id alone, in an earlier Podium; of groups without a member the tenant is unknown.
            groups = [group for group in groups.values() if group["members"]]
        for group in groups:
            self._reopen(group)
        if self.awaited is not None:
            waiting = [_decoded(each) for each in state.get("waiting", [])]
            closed = state.get("closed", [])
            keys = {_group_of(each) for each in waiting}
            late = {key for key in keys if [*key] in closed or key.id in closed}
            self.awaited.restore(waiting, late)
        # A kill between checkpoint and version left the version out.
        self._publish(checkpoint)

    def _reopen(self, group: Mapping[str, Any]) -> None:
        found = [_decoded(record) for record in group["members"]]
        key = GroupKey(*group["key"]) if "key" in group else _group_of(found[0])
        opened = OpenGroup(group["size"], tombstones=group["tombstones"])
        for each in found:
            try:
                opened.members.append(episode_from_proto(each, self.limits))
            except Rejected as rejection:
                self.rejected[rejection.reason] += 1
                opened.tombstones += 1
                log.info("episode %s is not used any more: %s", each.episode_id, rejection)
                continue
            kept = self.records.setdefault(key, {})
            kept[each.episode_id] = each.SerializeToString(deterministic=True)
        self.assembler.open[key] = opened


def _group_of(found: pb.Trajectory | pb.GroupClosed | pb.TrajectoryReference) -> GroupKey:
    return GroupKey(found.tenant, found.group_id)


def _encoded(trajectory: pb.Trajectory) -> str:
    return base64.b64encode(trajectory.SerializeToString(deterministic=True)).decode()


def _decoded(record: str) -> pb.Trajectory:
    return pb.Trajectory.FromString(base64.b64decode(record))
