import asyncio
from decimal import Decimal
from typing import Any

import grpc
import psutil
import pytest

from callers import code_of
from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import (
    Platform,
    events,
    finished,
    new_id,
    start,
)
from podium.common.v1 import failure_pb2, money_pb2
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium_kit.embedded.temporal import EmbeddedTemporal


async def test_episode_calls_its_tool_and_answers(platform: Platform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(
        calls(call("calculator", '{"expression": "6*7"}')), answer("42")
    )
    episode = await platform.run()
    assert episode.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    assert (episode.answer, episode.turn_count, episode.tool_call_count) == ("42", 2, 1)
    second = platform.neighbours.orchestrator.requests[1]
    assert 'calculator says {"expression": "6*7"}' in second.turns[0].observations[0].content


async def test_an_answer_after_calls_that_all_failed_is_marked(platform: Platform) -> None:
    orchestrator = platform.neighbours.orchestrator
    orchestrator.decide = in_turns(calls(call("nosuch")), answer("rainy"))
    failed = await platform.run()
    orchestrator.decide = in_turns(calls(call("nosuch")), calls(call("calculator")), answer("42"))
    mixed = await platform.run()
    orchestrator.decide = in_turns(answer("42"))
    without = await platform.run()
    marks = [each.all_tool_calls_failed for each in (failed, mixed, without)]
    assert marks == [True, False, False]
    assert list(failed.warnings) == ["every tool call failed, so the answer rests on no result"]
    assert failed.stop_reason == episode_pb2.STOP_REASON_ANSWERED


async def test_an_answer_that_cannot_be_stored_as_it_is_ends_the_episode_all_the_same(
    platform: Platform,
) -> None:
    platform.neighbours.orchestrator.decide = in_turns(answer("4\x002"))
    episode = await platform.run()
    assert episode.answer == "4\ufffd2"


async def test_cost_of_the_trajectory_is_the_ledgers_to_the_last_digit(platform: Platform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(
        calls(call("calculator"), call("search", index=1)), calls(call("search")), answer("done")
    )
    episode = await platform.run()
    trajectory = await platform.trajectory(episode.id)
    charged = platform.neighbours.ledger.total(episode.id)
    assert Decimal(trajectory.cost.amount) == charged > 0
    assert Decimal(episode.cost.amount) == charged
    assert list(trajectory.features.tool_call_counts) == [1, 2]


async def test_events_are_gapless_and_record_what_happened(platform: Platform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    seen = await events(platform.ada, (await start(platform.ada)).id)
    assert [event.sequence for event in seen] == [1, 2, 3, 4, 5]
    assert [event.WhichOneof("event") for event in seen] == [
        "started",
        "action_decided",
        "tool_returned",
        "action_decided",
        "finished",
    ]
    assert Decimal(seen[1].action_decided.cost.amount) > 0


async def test_watch_resumes_after_any_event(platform: Platform) -> None:
    episode = await platform.run()
    for after in range(4):
        watch = platform.ada.WatchEpisode(
            pb.WatchEpisodeRequest(episode_id=episode.id, after_sequence=after)
        )
        assert [r.event.sequence async for r in watch] == list(range(after + 1, 4))


@pytest.mark.parametrize("answer_parts", [False, True])
async def test_a_watch_of_the_end_alone_has_no_other_event(
    platform: Platform, *, answer_parts: bool
) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(call("search")), answer("done"))
    episode_id = (await start(platform.ada)).id
    wanted = pb.WatchEpisodeRequest(episode_id=episode_id, end_only=True, answer_parts=answer_parts)
    # While it runs, and after its end.
    for _ in range(2):
        [response] = [each async for each in platform.ada.WatchEpisode(wanted)]
        assert response.event == (await events(platform.ada, episode_id))[-1]
        assert response.event.finished.episode.answer == "done"


async def test_a_watch_of_the_end_is_the_tenants_own(platform: Platform) -> None:
    episode = await platform.run()
    wanted = pb.WatchEpisodeRequest(episode_id=episode.id, end_only=True)
    async with platform.client(tenant="other") as other:
        with pytest.raises(grpc.aio.AioRpcError, match="NOT_FOUND"):
            await anext(aiter(other.WatchEpisode(wanted)))


async def test_independent_calls_run_in_parallel(platform: Platform) -> None:
    # Nothing is answered before four are in flight.
    platform.neighbours.adapters.barrier = asyncio.Barrier(4)
    platform.neighbours.orchestrator.decide = in_turns(
        calls(*(call("search", index=index) for index in range(4))), answer("done")
    )
    await platform.run()
    assert platform.neighbours.adapters.in_flight_max == 4


async def test_unknown_tool_is_a_failure_the_model_sees(platform: Platform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(call("teleport")), answer("no"))
    episode = await platform.run()
    assert episode.answer == "no"
    observation = platform.neighbours.orchestrator.requests[1].turns[0].observations[0]
    assert "no tool teleport" in observation.failure.message


async def test_turn_limit_ends_the_episode_and_the_last_turn_must_answer(
    platform: Platform,
) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(call("calculator")))
    episode = await platform.run(turn_limit=3)
    assert episode.stop_reason == episode_pb2.STOP_REASON_TURN_LIMIT
    asked = platform.neighbours.orchestrator.requests
    assert [request.must_answer for request in asked] == [False, False, True]


async def test_exhausted_budget_ends_the_episode_with_the_reason(platform: Platform) -> None:
    platform.neighbours.ledger.reject_after = 2
    platform.neighbours.orchestrator.decide = in_turns(calls(call("calculator")))
    budget = money_pb2.Money(currency_code="USD", amount="0.01")
    episode = await platform.run(budget=budget)
    assert episode.stop_reason == episode_pb2.STOP_REASON_BUDGET_EXHAUSTED
    assert episode.failure.message == "budget b is used up"
    assert platform.neighbours.ledger.budgets[0].scope_id == episode.id


async def test_what_others_hold_of_a_budget_is_waited_for(platform: Platform) -> None:
    neighbours = platform.neighbours
    neighbours.ledger.open_max = 1
    neighbours.orchestrator.delay_s = 0.2
    neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    ids = [(await start(platform.ada)).id for _ in range(4)]
    ended = [await finished(platform.ada, each) for each in ids]
    assert {each.stop_reason for each in ended} == {episode_pb2.STOP_REASON_ANSWERED}
    assert neighbours.ledger.open_seen == 1
    assert {neighbours.orchestrator.asked[f"{each}/1/model/0"] for each in ids} == {1}


async def test_calls_of_one_turn_do_not_wait_for_each_other(platform: Platform) -> None:
    neighbours = platform.neighbours
    neighbours.ledger.open_max = 1
    both = calls(call("calculator"), call("calculator", index=1))
    neighbours.orchestrator.decide = in_turns(both, answer("42"))
    episode = await platform.run()
    trajectory = await platform.trajectory(episode.id)
    first, second = trajectory.turns[0].tool_invocations
    assert not first.observation.HasField("failure")
    assert second.observation.failure.kind == failure_pb2.FAILURE_KIND_BUDGET_EXHAUSTED


async def test_deadline_ends_a_running_model_call_and_releases_its_hold(platform: Platform) -> None:
    platform.neighbours.orchestrator.delay_s = 60
    started = await start(platform.ada, time_limit={"seconds": 1})
    episode = await finished(platform.ada, started.id)
    assert episode.stop_reason == episode_pb2.STOP_REASON_DEADLINE
    assert platform.neighbours.orchestrator.cancelled == [f"{episode.id}/1/model/0"]
    assert platform.neighbours.ledger.unpriced.keys() == {f"{episode.id}/1/model/0"}


async def test_cancel_stops_the_running_model_call_and_ends_its_hold(platform: Platform) -> None:
    platform.neighbours.orchestrator.delay_s = 60
    started = await start(platform.ada)
    await _until_asked(platform)
    await platform.ada.CancelEpisode(pb.CancelEpisodeRequest(episode_id=started.id))
    episode = await finished(platform.ada, started.id)
    assert episode.stop_reason == episode_pb2.STOP_REASON_CANCELLED
    assert platform.neighbours.orchestrator.cancelled == [f"{episode.id}/1/model/0"]
    # What it used until then is not known.
    assert platform.neighbours.ledger.unpriced.keys() == {f"{episode.id}/1/model/0"}


async def test_call_that_needs_approval_waits_for_a_person(platform: Platform) -> None:
    platform.neighbours.registry.toolset = make_toolset("pay", needs_approval=True)
    platform.neighbours.orchestrator.decide = in_turns(
        calls(call("pay"), call("pay", index=1)), answer("paid")
    )
    async with platform.client() as client, platform.client(subject="boss") as boss:
        episode_id = (await start(client)).id
        waiting = []
        async for response in client.WatchEpisode(pb.WatchEpisodeRequest(episode_id=episode_id)):
            if response.event.HasField("approval_requested"):
                waiting.append(response.event.approval_requested.call.index)
            if len(waiting) == 2:
                break
        for index, approved in ((0, True), (1, False)):
            await boss.ApproveToolCall(
                pb.ApproveToolCallRequest(
                    episode_id=episode_id,
                    turn=1,
                    call_index=index,
                    approved=approved,
                    reason="as agreed" if approved else "too dear",
                )
            )
        await finished(client, episode_id)
        reply = await client.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode_id))
    observations = platform.neighbours.orchestrator.requests[1].turns[0].observations
    assert observations[0].content == "pay says {}"
    assert "did not approve" in observations[1].failure.message
    invoked = platform.neighbours.adapters.invoked
    assert len([key for key in invoked if key.startswith(episode_id)]) == 1
    recorded = [made.approval for made in reply.trajectory.turns[0].tool_invocations]
    assert [(each.approved, each.actor, each.reason) for each in recorded] == [
        (True, "boss", "as agreed"),
        (False, "boss", "too dear"),
    ]


async def test_a_policy_changed_mid_episode_rejects_the_next_call(platform: Platform) -> None:
    policies = platform.neighbours.policies

    async def change(request: orchestrator_pb.NextActionRequest) -> None:
        if len(request.turns) == 1:
            policies.rejected["search"] = "denied by name search"
            await platform.announce_change()

    orchestrator = platform.neighbours.orchestrator
    orchestrator.decide = in_turns(calls(call("search")), calls(call("search")), answer("done"))
    orchestrator.before = change
    episode = await platform.run(policy="mine")
    trajectory = await platform.trajectory(episode.id)
    allowed, rejected, _ = trajectory.turns
    assert allowed.tool_invocations[0].observation.content == "search says {}"
    failure = rejected.tool_invocations[0].observation.failure
    assert failure.kind == failure_pb2.FAILURE_KIND_DENIED_BY_POLICY
    assert "denied by name search" in failure.message
    invoked = platform.neighbours.adapters.invoked
    assert len([key for key in invoked if key.startswith(episode.id)]) == 1
    assert f"{episode.id}/2/tool/0" not in platform.neighbours.ledger.holds
    assert {request.policy for request in policies.asked} == {"mine"}


async def test_unrequested_decision_is_rejected(platform: Platform) -> None:
    async with platform.client() as client, platform.client(subject="boss") as boss:
        episode = await finished(client, (await start(client)).id)
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await boss.ApproveToolCall(
                pb.ApproveToolCallRequest(episode_id=episode.id, turn=1, approved=True)
            )
    assert rejected.value.code() == grpc.StatusCode.FAILED_PRECONDITION


async def test_same_request_again_returns_the_same_episode(platform: Platform) -> None:
    request = pb.StartEpisodeRequest(
        episode_id=new_id(), spec=episode_pb2.EpisodeSpec(task="what is 6 x 7?")
    )
    first = (await platform.ada.StartEpisode(request)).episode
    await finished(platform.ada, first.id)
    again = (await platform.ada.StartEpisode(request)).episode
    assert again.id == first.id
    assert again.state == episode_pb2.EPISODE_STATE_FINISHED
    assert platform.neighbours.orchestrator.asked == {f"{first.id}/1/model/0": 1}


async def test_same_id_with_another_task_is_rejected(platform: Platform) -> None:
    episode_id = new_id()
    spec = episode_pb2.EpisodeSpec(task="one")
    await platform.ada.StartEpisode(pb.StartEpisodeRequest(episode_id=episode_id, spec=spec))
    spec.task = "another"
    assert (
        await code_of(
            platform.ada.StartEpisode(pb.StartEpisodeRequest(episode_id=episode_id, spec=spec))
        )
        is grpc.StatusCode.ALREADY_EXISTS
    )


async def test_episode_of_another_tenant_does_not_exist(platform: Platform) -> None:
    episode = await platform.run()
    async with platform.client("rival") as rival:
        for request in (
            rival.GetEpisode(pb.GetEpisodeRequest(episode_id=episode.id)),
            rival.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id)),
            rival.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode.id)),
        ):
            assert await code_of(request) is grpc.StatusCode.NOT_FOUND
        listed = await rival.ListEpisodes(pb.ListEpisodesRequest())
    assert not listed.episodes


async def test_name_that_is_no_id_is_an_unknown_episode(platform: Platform) -> None:
    for request in (
        platform.ada.GetEpisode(pb.GetEpisodeRequest(episode_id="nope")),
        platform.ada.GetTrajectory(pb.GetTrajectoryRequest(episode_id="nope")),
    ):
        assert await code_of(request) is grpc.StatusCode.NOT_FOUND


async def test_list_pages_from_newest_to_oldest(platform: Platform) -> None:
    ids = [(await start(platform.ada, labels={"batch": "one"})).id for _ in range(3)]
    request = pb.ListEpisodesRequest(page_size=2, filter=pb.EpisodeFilter(labels={"batch": "one"}))
    first = await platform.ada.ListEpisodes(request)
    request.page_token = first.next_page_token
    second = await platform.ada.ListEpisodes(request)
    assert [episode.id for episode in [*first.episodes, *second.episodes]] == ids[::-1]
    assert not second.next_page_token


async def test_a_page_ends_before_it_holds_too_many_bytes(platform: Platform) -> None:
    long = {"role": "user", "content": "x" * 1_000_000}
    ids = [(await start(platform.ada, history=[long])).id for _ in range(6)]
    first = await platform.ada.ListEpisodes(pb.ListEpisodesRequest())
    second = await platform.ada.ListEpisodes(
        pb.ListEpisodesRequest(page_token=first.next_page_token)
    )
    assert [len(first.episodes), len(second.episodes)] == [4, 2]
    assert [episode.id for episode in [*first.episodes, *second.episodes]] == ids[::-1]
    assert not second.next_page_token


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"task": "  "}, "the task is empty"),
        ({"task": "x", "turn_limit": -1}, "turn_limit is -1"),
        ({"task": "x", "model": "gpt-9"}, "no orchestrator model gpt-9"),
        ({"task": "x", "budget": {"currency_code": "USD", "amount": "-1"}}, "above zero"),
        ({"task": "x", "budget": {"currency_code": "USD", "amount": "1e3"}}, "give a decimal"),
        ({"task": "x", "group": {"size": 2}}, "needs group.id"),
        ({"task": "x", "history": [{}] * 1_001}, "holds 1001; give at most 1000"),
        ({"task": "x", "tool_names": ["x" * 1_100_000]}, "longer than 1024 KiB"),
    ],
)
async def test_wrong_input_names_the_cause(
    platform: Platform, spec: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await start(platform.ada, **spec)
    assert complaint in (rejected.value.details() or "")


async def test_model_that_fails_for_good_fails_the_episode_with_the_reason(
    platform: Platform,
) -> None:
    platform.neighbours.orchestrator.error = (
        grpc.StatusCode.FAILED_PRECONDITION,
        "the prompt does not fit the model",
    )
    episode = await platform.run()
    assert episode.stop_reason == episode_pb2.STOP_REASON_FAILED
    assert "does not fit" in episode.failure.message


async def _until_asked(platform: Platform) -> None:
    await asyncio.wait_for(platform.neighbours.orchestrator.was_asked.wait(), 30)


async def test_what_the_model_was_not_shown_is_told_with_the_episode(platform: Platform) -> None:
    platform.neighbours.orchestrator.left_out = ["290 of 329 tools"]
    platform.neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    episode = await start(platform.ada)
    ended = await finished(platform.ada, episode.id)
    seen = await events(platform.ada, episode.id)
    said = "not shown to the model, whose context was full: 290 of 329 tools"
    assert list(ended.warnings) == [f"turn 1: {said}", f"turn 2: {said}"]
    decided = [each.action_decided for each in seen if each.HasField("action_decided")]
    assert [list(each.left_out) for each in decided] == [["290 of 329 tools"]] * 2


CREATE_BUDGET = "BudgetService/CreateBudget"


def start_request() -> pb.StartEpisodeRequest:
    spec = episode_pb2.EpisodeSpec(
        task="what is 6 x 7?", budget=money_pb2.Money(currency_code="USD", amount="1")
    )
    return pb.StartEpisodeRequest(episode_id=new_id(), spec=spec, running_limit=1)


async def test_a_start_whose_budget_the_ledger_does_not_take_leaves_no_episode(
    platform: Platform,
) -> None:
    outage = platform.tenants.fail(platform.tenant, CREATE_BUDGET)
    request = start_request()
    assert (
        await code_of(platform.ada.StartEpisode(request, timeout=1))
        is grpc.StatusCode.DEADLINE_EXCEEDED
    )
    outage.end()
    # Only what is stored could run later.
    assert not (await platform.ada.ListEpisodes(pb.ListEpisodesRequest())).episodes
    assert (
        await code_of(platform.ada.GetEpisode(pb.GetEpisodeRequest(episode_id=request.episode_id)))
        is grpc.StatusCode.NOT_FOUND
    )
    assert not platform.neighbours.orchestrator.requests
    # The same request again runs once, within its budget.
    await platform.ada.StartEpisode(request)
    ended = await finished(platform.ada, request.episode_id)
    assert ended.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    # Creating a budget again under its id changes nothing.
    assert {one.scope_id for one in platform.neighbours.ledger.budgets} == {request.episode_id}


async def test_a_start_that_would_be_answered_too_late_leaves_no_episode(
    platform: Platform,
) -> None:
    request = start_request()
    assert (
        await code_of(platform.ada.StartEpisode(request, timeout=0.4))
        is grpc.StatusCode.DEADLINE_EXCEEDED
    )
    assert not (await platform.ada.ListEpisodes(pb.ListEpisodesRequest())).episodes


async def test_a_rejected_start_leaves_no_budget(platform: Platform) -> None:
    platform.neighbours.orchestrator.delay_s = 600.0
    first, second = start_request(), start_request()
    await platform.ada.StartEpisode(first)
    assert await code_of(platform.ada.StartEpisode(second)) is grpc.StatusCode.RESOURCE_EXHAUSTED
    # Neither does one that names an episode of another spec.
    second.episode_id = first.episode_id
    second.spec.budget.amount = "1000000"
    assert await code_of(platform.ada.StartEpisode(second)) is grpc.StatusCode.ALREADY_EXISTS
    await platform.ada.CancelEpisode(pb.CancelEpisodeRequest(episode_id=first.episode_id))
    await finished(platform.ada, first.episode_id)
    assert [one.scope_id for one in platform.neighbours.ledger.budgets] == [first.episode_id]


@pytest.mark.chaos
async def test_an_episode_starts_runs_and_ends_once_while_temporal_stalls(
    own_platform: Platform, temporal: EmbeddedTemporal
) -> None:
    """The client is told that the episode exists, so it runs; told thrice, it is one episode."""
    request, process = start_request(), psutil.Process(temporal.process.pid)
    async with own_platform.client() as client:
        # A worker that starts connects to Temporal before all else.
        await finished(client, (await start(client)).id)
        process.suspend()
        try:
            replies = [await client.StartEpisode(request) for _ in range(3)]
            async with asyncio.timeout(60):
                ended = await finished(client, request.episode_id)
        finally:
            process.resume()
    assert ended.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    assert {reply.episode.id for reply in replies} == {request.episode_id}
    assert len(own_platform.neighbours.orchestrator.requests) == 2
