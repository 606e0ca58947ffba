"""Rolling a plan: which episodes are started."""

from typing import Any, cast

import pytest
import uuid_utils

from podium_training.rollouts import Group, Offer, RolloutLimits, plan
from podium_training.rollouts.plan import Rollout
from podium_training.rollouts.rolling import Rolled, Roller
from podium_training.tasks.task import Split, Task


async def test_none_is_started_once_they_are_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ended(_: Roller, group: Group, rollout: Rollout) -> Rolled:
        return Rolled(group, rollout, "answered", 1.0, "", None, 0.0)

    monkeypatch.setattr(Roller, "_roll", ended)
    task = Task("task", "f", Split.TRAIN, "What?", "exact", {"expected": "x"})
    run = str(uuid_utils.uuid7())
    groups = plan(run, [task, task], 2, Offer({}, 0))
    kept: list[Rolled] = []
    roller = Roller(cast(Any, None), RolloutLimits(), run)
    rolled = await roller.roll(groups, 1, kept.append, lambda: len(kept) < 3)
    assert rolled == kept
    assert [each.rollout for each in rolled] == [
        rollout for group in groups for rollout in group.rollouts
    ][:3]
