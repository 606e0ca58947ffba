from collections import Counter
from functools import partial
from typing import Any, cast

import httpx
import pytest
import uuid_utils

from podium_kit.client.gateway import Gateway
from podium_kit.client.rejections import Rejected
from podium_training.rollouts import Group, Offer, RolloutLimits, plan, rolling
from podium_training.rollouts.plan import Rollout
from podium_training.rollouts.rolling import Rolled, Roller
from podium_training.tasks.task import Split, Task

TASK = Task("task", "f", Split.TRAIN, "What?", "exact", {"expected": "x"})


async def test_none_is_started_once_they_are_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ended(_: Roller, group: Group, rollout: Rollout) -> Rolled:
        return Rolled(group, rollout, "answered", 1.0, "", None, 0.0)

    monkeypatch.setattr(Roller, "_roll", ended)
    run = str(uuid_utils.uuid7())
    groups = plan(run, [TASK, TASK], 2, Offer({}, 0))
    kept: list[Rolled] = []
    roller = Roller(cast(Any, None), RolloutLimits(), run)
    rolled = await roller.roll(groups, 1, kept.append, lambda: len(kept) < 3)
    assert rolled == kept
    assert [each.rollout for each in rolled] == [
        rollout for group in groups for rollout in group.rollouts
    ][:3]


class Busy:
    """A gateway that rejects each request with these statuses before it answers."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = statuses
        self.asked: Counter[str] = Counter()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        number, self.asked[path] = self.asked[path], self.asked[path] + 1
        if number < len(self.statuses):
            return httpx.Response(self.statuses[number], json={"error": {"message": "no"}})
        if path.endswith("/trajectory"):
            return httpx.Response(200, json={"trajectory": {"unjudged_reason": "none"}})
        return httpx.Response(200, json={"episode": {"state": "EPISODE_STATE_FINISHED"}})


async def rolled(monkeypatch: pytest.MonkeyPatch, busy: Busy) -> list[Rolled]:
    monkeypatch.setattr(rolling, "PAUSE_MAX_S", 0.0)
    client = partial(httpx.AsyncClient, transport=httpx.MockTransport(busy))
    monkeypatch.setattr(httpx, "AsyncClient", client)
    run = str(uuid_utils.uuid7())
    async with Gateway("http://gateway.example.com", "key") as gateway:
        roller = Roller(gateway, RolloutLimits(), run)
        return await roller.roll(plan(run, [TASK], 1, Offer({}, 0)), 1, lambda _: None)


async def test_what_passes_by_itself_does_not_end_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = Busy(503, 429)
    [found] = await rolled(monkeypatch, busy)
    assert found.reason == "none"
    assert set(busy.asked.values()) == {3}


async def test_what_is_wrong_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = Busy(400)
    with pytest.raises(Rejected):
        await rolled(monkeypatch, busy)
    assert busy.asked.total() == 1
