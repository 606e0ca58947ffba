"""The age of the policy that answered a group's calls, and its limit.

What an old policy did says less about what the present one should do, and importance ratios
fix that only so far. Versions bear the step they were published after, so how far behind a
call is depends on the record and the trainer's step alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from podium_kit.policy_versions import InvalidVersionName, VersionName
from podium_training.grpo.data.episodes import Episode


@dataclass(frozen=True)
class StalenessBound:
    """Steps that the oldest call of a group may be behind the trainer."""

    run: str
    """The run that its versions are named by: policy-<run>-v<step>."""
    versions_behind_max: int

    def exceeded(self, members: Sequence[Episode], step: int) -> bool:
        """Returns whether a call was answered too many steps before `step`, the steps taken so
        far.
        """
        oldest = min(self._step(each) for member in members for each in member.model_versions)
        return step - oldest > self.versions_behind_max

    def _step(self, version: str) -> int:
        """Returns the step of a version; 0 for a name of another run, which this run began with."""
        try:
            name = VersionName.parse(version)
        except InvalidVersionName:
            return 0
        return name.number if name.run == self.run else 0
