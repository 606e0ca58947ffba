import asyncio
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.testing import TimeSkipper

from episodes.execution.outcomes import Approval, ChildCall, EpisodeResult, TurnInput
from episodes.workflows.codec import PAYLOAD_BYTES_MAX
from episodes.workflows.connection import connect_temporal
from episodes.workflows.episode_workflow import EpisodeWorkflow
from episodes.workflows.payloads import JudgeInput, TurnResult
from podium_kit.embedded.temporal import EmbeddedTemporal
from workflows.running_workflows import running_workflows
from workflows.scripted_activities import (
    ScriptedActivities,
    answers_in,
    asks_children,
    waits_for_approval,
)


async def connect(temporal: EmbeddedTemporal) -> Client:
    return await connect_temporal(temporal.target, "default")


async def result_of(
    temporal: EmbeddedTemporal, activities: ScriptedActivities, **options: Any
) -> EpisodeResult:
    async with running_workflows(await connect(temporal), activities) as workflows:
        return await (await workflows.start(**options)).result()


async def test_turns_go_on_until_one_answers(temporal: EmbeddedTemporal) -> None:
    activities = ScriptedActivities(answers_in(3))
    result = await result_of(temporal, activities)
    assert result.stop_reason == "answered"
    assert [turn.turn for turn in activities.turns] == [1, 2, 3]
    assert [finish.stop_reason for finish in activities.finished] == ["answered"]


async def test_last_turn_is_announced_and_the_limit_ends_the_episode(
    temporal: EmbeddedTemporal,
) -> None:
    activities = ScriptedActivities(answers_in(99))
    result = await result_of(temporal, activities, turn_limit=2)
    assert result.stop_reason == "turn_limit"
    assert [turn.last for turn in activities.turns] == [False, True]


async def test_no_number_of_attempts_ends_an_episode_while_something_is_away(
    temporal: EmbeddedTemporal,
) -> None:
    activities = ScriptedActivities(answers_in(1), finishes=False)
    async with running_workflows(await connect(temporal), activities) as workflows:
        handle = await workflows.start(checked=True)
        await handle.result()
        history = await handle.fetch_history()
    attempts = {
        scheduled.activity_type.name: scheduled.retry_policy.maximum_attempts
        for event in history.events
        if (scheduled := event.activity_task_scheduled_event_attributes).activity_type.name
    }
    unlimited = 0
    assert attempts == dict.fromkeys(("take_turn", "judge_answer", "finish_episode"), unlimited)


async def test_cancel_finishes_the_episode_in_order(temporal: EmbeddedTemporal) -> None:
    activities = ScriptedActivities(answers_in(99), delay_s=0.3)
    async with running_workflows(await connect(temporal), activities) as workflows:
        handle = await workflows.start(turn_limit=100)
        await handle.cancel()
        result = await handle.result()
    assert result.stop_reason == "cancelled"
    assert [finish.stop_reason for finish in activities.finished] == ["cancelled"]


async def test_deadline_ends_a_turn_that_is_too_slow(temporal: EmbeddedTemporal) -> None:
    activities = ScriptedActivities(answers_in(1), delay_s=60)
    result = await result_of(temporal, activities, time_limit_s=1)
    assert result.stop_reason == "deadline"


async def test_approved_calls_are_made_and_others_denied(temporal: EmbeddedTemporal) -> None:
    activities = ScriptedActivities(waits_for_approval)
    async with running_workflows(await connect(temporal), activities) as workflows:
        handle = await workflows.start()
        await _decide(handle, Approval(1, 0, True, "ada"))
        await _decide(handle, Approval(1, 1, False, "ada", "too dear"))
        await handle.result()
    assert activities.turns[1].approvals == {"0": True, "1": False}
    assert activities.turns[1].decided["1"] == Approval(1, 1, False, "ada", "too dear")


@pytest.mark.parametrize("turn", [0, 1000])
async def test_a_decision_on_another_turn_is_rejected(
    temporal: EmbeddedTemporal, turn: int
) -> None:
    activities = ScriptedActivities(answers_in(50), delay_s=0.3)
    async with running_workflows(await connect(temporal), activities) as workflows:
        handle = await workflows.start()
        while not activities.turns:
            await asyncio.sleep(0.01)
        with pytest.raises(WorkflowUpdateFailedError):
            await handle.execute_update(EpisodeWorkflow.decide, Approval(turn, 0, True, "ada"))
        await handle.cancel()
        await handle.result()


async def test_a_decision_may_come_before_the_turn_returns_and_be_repeated(
    temporal: EmbeddedTemporal,
) -> None:
    activities = ScriptedActivities(waits_for_approval, delay_s=0.5)
    async with running_workflows(await connect(temporal), activities) as workflows:
        handle = await workflows.start()
        while not activities.turns:
            await asyncio.sleep(0.01)
        approval = Approval(1, 0, True, "ada")
        for _ in range(2):
            await handle.execute_update(EpisodeWorkflow.decide, approval)
        with pytest.raises(WorkflowUpdateFailedError):
            await handle.execute_update(EpisodeWorkflow.decide, Approval(1, 0, False, "boss"))
        await handle.execute_update(EpisodeWorkflow.decide, Approval(1, 1, False, "ada"))
        await handle.result()
    assert activities.turns[1].approvals == {"0": True, "1": False}


async def test_an_approval_that_times_out_is_a_denial(temporal: EmbeddedTemporal) -> None:
    activities = ScriptedActivities(waits_for_approval)
    client = await connect(temporal)
    skipping = TimeSkipper(client).client
    async with running_workflows(skipping, activities) as workflows:
        await (await workflows.start(time_limit_s=24 * 3600)).result()
    assert activities.turns[1].approvals == {"0": False, "1": False}
    assert not activities.turns[1].decided


async def test_children_run_beside_the_other_calls_and_are_joined_once(
    temporal: EmbeddedTemporal,
) -> None:
    activities = ScriptedActivities(asks_children)
    async with running_workflows(await connect(temporal), activities) as workflows:
        handle = await workflows.start(time_limit_s=20)
        result = await handle.result()
    assert result.stop_reason == "answered"
    parent = activities.turns[0].episode_id
    asked = [turn for turn in activities.turns if turn.episode_id == parent]
    assert [(turn.turn, turn.children, sorted(turn.ended)) for turn in asked] == [
        (1, [], []),
        (1, [0, 2], []),
        (1, [0, 2], ["0", "2"]),
        (2, [], []),
    ]
    # Their own tool allows thirty seconds, their parent has less.
    assert all(call.time_limit_s <= 20 for call in activities.admitted)
    assert [one.episode_id for one in activities.finished][-1] == parent


async def test_cancel_ends_a_child_before_its_parent(temporal: EmbeddedTemporal) -> None:
    def child_never_ends(turn: TurnInput) -> TurnResult:
        if turn.episode_id.endswith("-child"):
            return TurnResult(pending=[0])
        return asks_children(turn)

    activities = ScriptedActivities(child_never_ends)
    async with running_workflows(await connect(temporal), activities) as workflows:
        handle = await workflows.start()
        while len(activities.admitted) < 2:
            await asyncio.sleep(0.01)
        await handle.cancel()
        result = await handle.result()
    assert result.stop_reason == "cancelled"
    assert [one.episode_id.endswith("-child") for one in activities.finished] == [
        True,
        True,
        False,
    ]


async def test_over_large_result_ends_the_episode_instead_of_hanging_it(
    temporal: EmbeddedTemporal,
) -> None:
    def too_much(turn: TurnInput) -> TurnResult:
        return TurnResult(stop="answered", message="x" * (PAYLOAD_BYTES_MAX + 1))

    activities = ScriptedActivities(too_much, finishes=False)
    result = await result_of(temporal, activities)
    assert result.stop_reason == "failed"
    assert "pass a reference instead" in activities.finished[0].message


async def test_over_large_argument_is_rejected_at_once(temporal: EmbeddedTemporal) -> None:
    activities = ScriptedActivities(answers_in(1))
    async with running_workflows(await connect(temporal), activities) as workflows:
        with pytest.raises(ApplicationError, match="pass a reference instead"):
            await workflows.client.start_workflow(
                "Episode",
                "x" * (PAYLOAD_BYTES_MAX + 1),
                id="too-large",
                task_queue=workflows.task_queue,
            )


async def _decide(handle: object, approval: Approval) -> None:
    while True:
        try:
            await handle.execute_update(EpisodeWorkflow.decide, approval)  # type: ignore[attr-defined]
        except WorkflowUpdateFailedError:
            continue
        return


async def test_answer_is_judged_before_the_episode_is_finished(temporal: EmbeddedTemporal) -> None:
    activities = ScriptedActivities(answers_in(2), finishes=False)
    async with running_workflows(await connect(temporal), activities) as workflows:
        await (await workflows.start(checked=True)).result()
    assert len(activities.judged) == 1
    assert [finish.unjudged_reason for finish in activities.finished] == [""]


async def test_episode_without_check_or_answer_is_not_judged(temporal: EmbeddedTemporal) -> None:
    activities = ScriptedActivities(answers_in(2), finishes=False)
    async with running_workflows(await connect(temporal), activities) as workflows:
        await (await workflows.start()).result()
        await (await workflows.start(turn_limit=1, checked=True)).result()
    assert not activities.judged


async def test_check_that_cannot_be_run_leaves_the_answer_unjudged_with_the_reason(
    temporal: EmbeddedTemporal,
) -> None:
    def fails(judge: JudgeInput) -> None:
        raise ApplicationError("no sandbox answers", non_retryable=True)

    activities = ScriptedActivities(answers_in(1), judge=fails, finishes=False)
    result = await result_of(temporal, activities, checked=True)
    assert result.stop_reason == "answered"
    assert "no sandbox answers" in activities.finished[0].unjudged_reason


async def activities_of(handle: WorkflowHandle[EpisodeWorkflow, EpisodeResult]) -> list[str]:
    events = (await handle.fetch_history()).events
    scheduled = [event.activity_task_scheduled_event_attributes for event in events]
    return [each.activity_type.name for each in scheduled if each.activity_type.name]


async def test_a_run_of_turns_and_the_end_take_one_activity(temporal: EmbeddedTemporal) -> None:
    activities = ScriptedActivities(answers_in(4))
    async with running_workflows(await connect(temporal), activities) as workflows:
        handle = await workflows.start()
        result = await handle.result()
        assert await activities_of(handle) == ["take_turn"]
    assert result.stop_reason == "answered"
    assert [turn.turn for turn in activities.turns] == [1, 2, 3, 4]


async def test_what_a_run_could_not_finish_the_workflow_does(temporal: EmbeddedTemporal) -> None:
    activities = ScriptedActivities(answers_in(2), finishes=False)
    async with running_workflows(await connect(temporal), activities) as workflows:
        handle = await workflows.start()
        await handle.result()
        assert await activities_of(handle) == ["take_turn", "finish_episode"]
    assert [finish.stop_reason for finish in activities.finished] == ["answered"]


async def test_a_drained_run_goes_on_at_the_next_turn(temporal: EmbeddedTemporal) -> None:
    activities = ScriptedActivities(answers_in(4), drains_at=2)
    async with running_workflows(await connect(temporal), activities) as workflows:
        handle = await workflows.start()
        await handle.result()
        assert await activities_of(handle) == ["take_turn", "take_turn"]
    assert [turn.turn for turn in activities.turns] == [1, 2, 3, 4]


async def test_any_turn_of_a_run_may_ask_for_approval(temporal: EmbeddedTemporal) -> None:
    def asks_twice(turn: TurnInput) -> TurnResult:
        if turn.turn in (2, 4) and not turn.approvals:
            return TurnResult(pending=[0])
        return TurnResult(stop="answered" if turn.turn == 5 else "")

    activities = ScriptedActivities(asks_twice)
    async with running_workflows(await connect(temporal), activities) as workflows:
        handle = await workflows.start()
        for turn in (2, 4):
            await _decide(handle, Approval(turn, 0, True, "ada"))
        await handle.result()
    taken = [(turn.turn, turn.approvals) for turn in activities.turns]
    approved = {"0": True}
    assert taken == [(1, {}), (2, {}), (2, approved), (3, {}), (4, {}), (4, approved), (5, {})]


async def test_children_in_the_middle_of_a_run_are_joined_once(temporal: EmbeddedTemporal) -> None:
    def asks_later(turn: TurnInput) -> TurnResult:
        if turn.episode_id.endswith("-child") or turn.turn == 3:
            return TurnResult(stop="answered")
        if turn.turn == 1 or turn.children:
            return TurnResult()
        child = ChildCall(f"{turn.episode_id}-child", turn.episode_id, 2, 0, 30.0)
        return TurnResult(children=[child], others=True)

    activities = ScriptedActivities(asks_later)
    async with running_workflows(await connect(temporal), activities) as workflows:
        await (await workflows.start()).result()
    parent = activities.turns[0].episode_id
    asked = [turn for turn in activities.turns if turn.episode_id == parent]
    assert [(turn.turn, turn.children, sorted(turn.ended)) for turn in asked] == [
        (1, [], []),
        (2, [], []),
        (2, [0], []),
        (2, [0], ["0"]),
        (3, [], []),
    ]
