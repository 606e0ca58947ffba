"""Plans of rollouts, and how they are rolled."""

import dataclasses
import uuid
from collections import Counter
from decimal import Decimal
from functools import partial
from itertools import groupby
from typing import Any, cast

import httpx
import pytest
import uuid_utils

from podium_kit.client.gateway import Gateway
from podium_kit.client.rejections import Rejected
from podium_training.rollouts import Group, Offer, RolloutLimits, anew, plan, rolling
from podium_training.rollouts.plan import InvalidRun, Rollout
from podium_training.rollouts.rolling import Rolled, Roller
from podium_training.tasks.task import Call, Split, Task

# Every choice follows from it, so that no test depends on when it runs.
RUN = "01912345-6789-7abc-8def-0123456789ab"
OTHER_RUN = "01912345-6789-7abc-8def-0123456789ac"
KNOWN = {f"tool{number}": [f"sku/{number}"] for number in range(12)}
OFFER = Offer(KNOWN, 6)


def make_task(number: int = 0, *tools: str) -> Task:
    solution = tuple(Call(tool, {}) for tool in tools) or None
    name = f"task{number}"
    return Task(name, "f", Split.TRAIN, "What?", "exact", {"expected": "x"}, solution)


def test_a_resumed_run_asks_for_the_same_episodes_and_another_run_for_others() -> None:
    tasks = [make_task(number) for number in range(5)]
    first = plan(RUN, tasks, 4, OFFER)
    assert plan(RUN, tasks, 4, OFFER) == first
    # A run that is given more tasks later keeps the groups it has.
    assert plan(RUN, [*tasks, make_task(9)], 4, OFFER)[:5] == first
    other = plan(str(uuid_utils.uuid7()), tasks, 4, OFFER)
    assert not _ids(first) & _ids(other)


def test_another_model_gets_the_same_choices_in_episodes_of_its_own() -> None:
    tasks = [make_task(number, "tool3") for number in range(5)]
    groups = plan(RUN, tasks, 2, dataclasses.replace(OFFER, price_spread=3.0))
    other = str(uuid_utils.uuid7())
    others = [anew(group, other) for group in groups]
    assert not _ids(groups) & _ids(others)
    assert not {group.id for group in groups} & {group.id for group in others}
    for ours, theirs in zip(groups, others, strict=True):
        same = dataclasses.replace(theirs, id=ours.id, rollouts=ours.rollouts)
        assert same == ours
    assert [anew(group, other) for group in groups] == others


def test_every_episode_has_an_id_of_its_own_and_a_place_in_its_group() -> None:
    groups = plan(RUN, [make_task(number) for number in range(20)], 8, OFFER)
    assert len(_ids(groups)) == 160
    assert all([each.sample_index for each in group.rollouts] == [*range(8)] for group in groups)
    assert {uuid.UUID(each).version for each in _ids(groups)} == {7}
    assert {uuid.UUID(each).bytes[:6] for each in _ids(groups)} == {uuid.UUID(RUN).bytes[:6]}


def test_a_group_is_offered_the_tools_of_its_solution_and_others() -> None:
    tasks = [make_task(number, "tool3", "tool7") for number in range(50)]
    groups = plan(RUN, tasks, 2, OFFER)
    assert all({"tool3", "tool7"} <= set(group.tool_names) <= set(KNOWN) for group in groups)
    assert {len(group.tool_names) for group in groups} == {3, 4, 5, 6}
    assert len({group.tool_names for group in groups}) > 40
    assert {group.tool_names.index("tool3") for group in groups} > {0, 1, 2}


def test_a_task_nobody_knows_the_solution_of_is_offered_all_that_fit() -> None:
    [group] = plan(RUN, [make_task()], 2, OFFER)
    assert len(group.tool_names) == 6


def test_the_tool_that_looks_at_the_state_is_offered_to_nobody() -> None:
    parameters = {"look": {"tool": "tool5", "arguments": {}}, "expected": 1}
    tasks = [Task(f"t{n}", "f", Split.TRAIN, "?", "state", parameters) for n in range(40)]
    groups = plan(RUN, tasks, 1, Offer(KNOWN, 12))
    assert all(set(group.tool_names) == KNOWN.keys() - {"tool5"} for group in groups)


def test_a_task_whose_tool_is_not_there_is_rejected() -> None:
    with pytest.raises(InvalidRun, match="task0 needs abacus"):
        plan(RUN, [make_task(0, "abacus")], 2, OFFER)


@pytest.mark.parametrize("run_id", ["01912345-6789-4abc-8def-0123456789ab", "nightly"])
def test_a_run_id_that_is_no_uuid7_is_rejected(run_id: str) -> None:
    with pytest.raises(InvalidRun, match="not a UUIDv7"):
        plan(run_id, [make_task()], 2, OFFER)


def test_every_group_sees_prices_of_its_own_within_the_spread() -> None:
    offer = Offer(KNOWN, 6, price_spread=4)
    groups = plan(RUN, [make_task(number, "tool3") for number in range(50)], 2, offer)
    assert plan(RUN, [make_task(number, "tool3") for number in range(50)], 2, offer) == groups
    for group in groups:
        assert group.price_factors.keys() == {KNOWN[name][0] for name in group.tool_names}
    factors = [Decimal(text) for group in groups for text in group.price_factors.values()]
    assert Decimal("0.25") <= min(factors) < Decimal("0.4") < 3 < max(factors) <= 4
    more_expensive = sum(factor > 1 for factor in factors) / len(factors)
    assert 0.3 < more_expensive < 0.7


def test_prices_do_not_change_what_else_a_group_is() -> None:
    [plain] = plan(RUN, [make_task()], 2, OFFER)
    [told] = plan(RUN, [make_task()], 2, Offer(KNOWN, 6, price_spread=2))
    assert plain.price_factors == {}
    assert dataclasses.replace(told, price_factors={}) == plain


def test_groups_of_a_tool_subset_follow_each_other() -> None:
    tasks = [
        make_task(n, *(f"tool{k}" for k in range(n % 4, n % 4 + 1 + n % 2))) for n in range(80)
    ]
    offer = Offer(KNOWN, 10, tool_subsets=5)
    groups = plan(RUN, tasks, 1, offer)
    assert plan(RUN, tasks, 1, offer) == groups
    assert {group.task.id for group in groups} == {task.id for task in tasks}
    assert all(set(group.task.tools) <= set(group.tool_names) for group in groups)
    tool_subsets = [names for names, _ in groupby(group.tool_names for group in groups)]
    assert len(tool_subsets) == len(set(tool_subsets)) == 5
    assert len({len(names) for names in tool_subsets}) > 2


def test_a_task_no_tool_subset_serves_has_a_choice_of_its_own() -> None:
    look = {"look": {"tool": "tool1", "arguments": {}}, "expected": 1}
    judged = Task("judged", "f", Split.TRAIN, "?", "state", look, (Call("tool2", {}),))
    groups = plan(RUN, [judged, make_task(0, "tool1")], 1, Offer(KNOWN, 12, tool_subsets=1))
    assert [group.task.id for group in groups] == ["task0", "judged"]
    assert "tool1" not in groups[1].tool_names
    assert "tool2" in groups[1].tool_names


@pytest.mark.parametrize("tool_subsets", [0, 3])
def test_a_tool_that_is_always_offered_comes_on_top_of_the_others(tool_subsets: int) -> None:
    tasks = [make_task(n, "tool3") for n in range(40)]
    groups = plan(
        RUN, tasks, 1, Offer(KNOWN, 4, tool_subsets=tool_subsets, always=("tool0", "tool3"))
    )
    assert all({"tool0", "tool3"} <= set(group.tool_names) for group in groups)
    assert all(len(group.tool_names) == len(set(group.tool_names)) <= 6 for group in groups)
    assert max(len(group.tool_names) for group in groups) >= 5


def test_tools_that_are_always_offered_never_read_the_state() -> None:
    look = {"look": {"tool": "tool1", "arguments": {}}, "expected": 1}
    judged = Task("judged", "f", Split.TRAIN, "?", "state", look, (Call("tool2", {}),))
    [group] = plan(RUN, [judged], 1, Offer(KNOWN, 4, always=("tool1",)))
    assert "tool1" not in group.tool_names


def test_a_tool_that_is_not_there_cannot_be_offered_always() -> None:
    with pytest.raises(InvalidRun, match="abacus is to be offered always"):
        plan(RUN, [make_task()], 1, Offer(KNOWN, 4, always=("abacus",)))


def test_every_group_has_one_of_the_policies() -> None:
    tasks = [make_task(number) for number in range(40)]
    groups = plan(RUN, tasks, 2, Offer(KNOWN, 6, policies=("thrifty", "hasty")))
    assert {group.policy for group in groups} == {"thrifty", "hasty"}
    assert plan(RUN, tasks[:1], 2, OFFER)[0].policy == "", "the tenant's"


@pytest.mark.parametrize("tool_subsets", [0, 6])
def test_a_task_comes_under_several_policies_with_the_same_tools(tool_subsets: int) -> None:
    tasks = [make_task(number) for number in range(10)]
    names = ("thrifty", "hasty", "careful")
    offer = Offer(KNOWN, 6, 3.0, tool_subsets, policies=names, policies_per_task=2)
    groups = plan(RUN, tasks, 2, offer)
    assert len({group.id for group in groups}) == 20
    for one, other in zip(groups[::2], groups[1::2], strict=True):
        assert (one.task, one.tool_names) == (other.task, other.tool_names)
        assert one.price_factors == other.price_factors
        assert one.policy != other.policy
    again = [anew(group, run_id=OTHER_RUN) for group in groups]
    assert len({each.episode_id for group in again for each in group.rollouts}) == 40


def test_a_task_comes_under_no_more_policies_than_there_are() -> None:
    with pytest.raises(InvalidRun, match="under 3 policies, and 2 are named"):
        plan(RUN, [make_task()], 1, Offer(KNOWN, 6, policies=("a", "b"), policies_per_task=3))


@pytest.mark.parametrize("tool_subsets", [0, 6])
def test_tools_are_withheld_from_a_share_of_the_groups(tool_subsets: int) -> None:
    tasks = [make_task(number, f"tool{number % 8}") for number in range(200)]
    offer = Offer(KNOWN, 6, tool_subsets=tool_subsets, always=("tool11",), withheld=0.3)
    groups = plan(RUN, tasks, 1, offer)
    without = [group for group in groups if group.task.tools[0] not in group.tool_names]
    assert 0.2 < len(without) / len(groups) < 0.4
    assert all("tool11" in group.tool_names for group in groups)


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_a_share_withheld_that_is_no_share_is_rejected(share: float) -> None:
    with pytest.raises(InvalidRun, match="give 0 to 1"):
        plan(RUN, [make_task()], 2, Offer(KNOWN, 6, withheld=share))


@pytest.mark.parametrize("spread", [0.5, 0.0, -2.0, 1000.0, float("nan")])
def test_a_spread_that_makes_no_sense_is_rejected(spread: float) -> None:
    with pytest.raises(InvalidRun, match="price spread"):
        plan(RUN, [make_task()], 2, Offer(KNOWN, 6, price_spread=spread))


def _ids(groups: list[Group]) -> set[str]:
    return {each.episode_id for group in groups for each in group.rollouts}


def test_without_tools_to_choose_from_the_platform_chooses_at_prices_of_the_group() -> None:
    tasks = [make_task(number, "tool3") for number in range(8)]
    groups = plan(RUN, tasks, 2, Offer(KNOWN, 0, price_spread=2.0))
    assert {group.tool_names for group in groups} == {()}
    assert all(set(group.price_factors) == {f"sku/{n}" for n in range(12)} for group in groups)
    with pytest.raises(InvalidRun, match="the platform chooses the tools"):
        plan(RUN, tasks, 2, Offer(KNOWN, 0, withheld=0.5))


def test_find_tools_may_be_offered_though_no_registry_lists_it() -> None:
    [group] = plan(RUN, [make_task(0, "tool3")], 2, Offer(KNOWN, 4, always=("find_tools",)))
    assert group.tool_names[-1] == "find_tools" and "tool3" in group.tool_names
    with pytest.raises(InvalidRun, match="seek_tools is to be offered always"):
        plan(RUN, [make_task(0, "tool3")], 2, Offer(KNOWN, 4, always=("seek_tools",)))


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
