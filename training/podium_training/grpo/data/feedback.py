from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from podium.episodes.v1 import trajectory_pb2 as pb
from podium_training.grpo.data.episodes import GroupKey

VERIFIER = "feedback"
WAITING_MAX = 1_000


def judged_by(trajectory: pb.Trajectory, given: pb.FeedbackGiven) -> pb.Trajectory:
    """The episode with the score as its only outcome."""
    judged = pb.Trajectory()
    judged.CopyFrom(trajectory)
    del judged.outcomes[:]
    feedback = given.feedback
    judged.outcomes.add(verifier=VERIFIER, score=feedback.score, explanation=feedback.label)
    return judged


@dataclass
class AwaitedFeedback:
    """Usable episodes that no one has scored yet; the first score of each counts."""

    maximum: int = WAITING_MAX
    """One more, and the oldest is given up: they are in memory and in every checkpoint."""
    waiting: "OrderedDict[str, pb.Trajectory]" = field(default_factory=OrderedDict)
    closed: set[GroupKey] = field(default_factory=set)
    """Groups whose members have all finished, some of which wait."""

    def keep(self, trajectory: pb.Trajectory) -> pb.Trajectory | None:
        self.waiting[trajectory.episode_id] = trajectory
        if len(self.waiting) <= self.maximum:
            return None
        _, oldest = self.waiting.popitem(last=False)
        return oldest

    def scored(self, given: pb.FeedbackGiven) -> pb.Trajectory | None:
        """The episode with its outcome; None when it waits for none, or this is no score."""
        if not given.feedback.HasField("score"):
            return None
        found = self.waiting.pop(given.episode_id, None)
        return found and judged_by(found, given)

    def close(self, group: GroupKey) -> bool:
        """Returns whether the group is at its end, which a member that waits puts off."""
        if any((each.tenant, each.group_id) == group for each in self.waiting.values()):
            self.closed.add(group)
            return False
        self.closed.discard(group)
        return True

    def restore(self, waiting: Iterable[pb.Trajectory], closed: Iterable[GroupKey]) -> None:
        self.waiting.update((each.episode_id, each) for each in waiting)
        self.closed.update(closed)
