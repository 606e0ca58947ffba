import asyncio
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import Platform, events, start
from integration.episodes.test_access import asked
from integration.episodes.test_webhooks import delivered, hook, webhooks
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.common.v1 import money_pb2
from podium.episodes.v1 import check_pb2, trajectory_pb2, webhook_service_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium_kit.verifiers.python_check import MARK

if TYPE_CHECKING:
    from podium.episodes.v1.episode_service_pb2_grpc import EpisodeServiceAsyncStub

LOOK = {"tool": "search", "arguments": {"what": "orders"}}


def check(verifier: str, **parameters: Any) -> check_pb2.Check:
    return check_pb2.Check(verifier=verifier, parameters_json=json.dumps(parameters))


async def trajectory(
    client: "EpisodeServiceAsyncStub", episode_id: str
) -> trajectory_pb2.Trajectory:
    reply = await client.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode_id))
    return reply.trajectory


async def judged(
    platform: Platform, wanted: check_pb2.Check, **spec: Any
) -> trajectory_pb2.Trajectory:
    episode = await platform.run(check=wanted, **spec)
    return await trajectory(platform.ada, episode.id)


async def test_outcome_names_verifier_version_score_and_reason(platform: Platform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(
        calls(call("calculator")), answer("It is 42")
    )
    right = await judged(platform, check("numeric", expected=42))
    wrong = await judged(platform, check("numeric", expected=41))
    [outcome] = right.outcomes
    assert (outcome.verifier, outcome.verifier_version, outcome.score) == ("numeric", "1", 1.0)
    assert [outcome.score for outcome in wrong.outcomes] == [0.0]
    assert "found 42, expected 41" in wrong.outcomes[0].explanation


async def test_the_check_never_reaches_the_model(platform: Platform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("no"))
    await judged(platform, check("exact", expected="xyzzy-the-secret"))
    asked = platform.neighbours.orchestrator.requests
    assert len(asked) == 2
    assert all(b"xyzzy" not in request.SerializeToString() for request in asked)
    invoked = platform.neighbours.adapters.requests
    assert all(b"xyzzy" not in request.SerializeToString() for request in invoked)


async def test_check_in_the_sandbox_is_charged_but_no_cost_of_the_policy(
    platform: Platform,
) -> None:
    platform.neighbours.adapters.content = lambda request: f'{MARK}[1, "as it should be"]'
    wanted = check("python", code="def check(answer): return True", tool="calculator")
    found = await judged(platform, wanted)
    [invoked] = platform.neighbours.adapters.requests
    assert invoked.key == f"{found.episode_id}/1/verifier/0"
    assert invoked.episode_id != found.episode_id, "it would see files the episode prepared"
    assert found.outcomes[0].explanation == "as it should be"
    charged = platform.neighbours.ledger.total(found.episode_id)
    own = sum(Decimal(turn.model_call.cost.amount) for turn in found.turns)
    assert Decimal(found.cost.amount) == charged
    assert Decimal(found.features.cost.amount) == own
    assert own + Decimal(found.verifier_calls[0].cost.amount) == charged
    assert not any(found.features.tool_call_counts)


async def test_state_the_episode_left_is_compared_with_the_golden_calls(platform: Platform) -> None:
    def state(request: adapters_pb.InvokeRequest) -> str:
        # Golden calls run elsewhere: their state is its own.
        return "[3]" if request.key.startswith(f"{request.episode_id}/") else "[4]"

    platform.neighbours.adapters.content = state
    wanted = check("state", look=LOOK, golden_calls=[{"tool": "calculator", "arguments": {}}])
    found = await judged(platform, wanted)
    assert [call.observation.content for call in found.verifier_calls] == ["[3]", "[4]", "[4]"]
    assert [outcome.score for outcome in found.outcomes] == [0.0]
    assert (await judged(platform, check("state", look=LOOK, expected=[3]))).outcomes[0].score == 1


async def test_unreadable_verdict_is_unjudged_and_never_zero(platform: Platform) -> None:
    found = await judged(platform, check("llm", judges="search", reference="42"))
    assert not found.outcomes
    assert "no verdict" in found.unjudged_reason


async def test_a_verifier_rejected_by_the_budget_leaves_the_answer_unscored_with_the_reason(
    platform: Platform,
) -> None:
    platform.neighbours.ledger.reject_after = 1
    found = await judged(platform, check("state", look=LOOK, expected=1))
    assert not found.outcomes
    assert found.unjudged_reason == "search failed: budget b is used up"
    assert not platform.neighbours.adapters.requests


async def test_episode_without_an_answer_has_not_solved_its_task(platform: Platform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(call("calculator")))
    found = await judged(platform, check("exact", expected="42"), turn_limit=1)
    [outcome] = found.outcomes
    assert (outcome.score, outcome.explanation) == (0.0, "no answer was given: turn_limit")


async def test_verification_is_seen_in_the_watch_without_gaps(platform: Platform) -> None:
    platform.neighbours.adapters.content = lambda request: "[3]"
    wanted = check("state", look=LOOK, expected=[3])
    seen = await events(platform.ada, (await start(platform.ada, check=wanted)).id)
    kinds = [event.WhichOneof("event") for event in seen]
    assert kinds == ["started", "action_decided", "verifier_called", "judged", "finished"]
    assert [event.sequence for event in seen] == [1, 2, 3, 4, 5]
    assert seen[3].judged.score == 1


async def test_senseless_check_is_rejected_at_the_start(platform: Platform) -> None:
    senseless = {
        "there is no verifier 'guess'": check_pb2.Check(verifier="guess"),
        "not JSON": check_pb2.Check(verifier="exact", parameters_json="{"),
        "not a JSON object": check_pb2.Check(verifier="exact", parameters_json="[]"),
        "expected": check_pb2.Check(verifier="exact", parameters_json="{}"),
    }
    for why, wanted in senseless.items():
        with pytest.raises(grpc.aio.AioRpcError, match=why) as rejected:
            await start(platform.ada, check=wanted)
        assert rejected.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("rejecting", "own", "score"),
    [
        ("b", None, None),
        ("b", "0.01", None),
        ("episode/0190a000-0000-7000-8000-000000000000", "0.01", None),
        ("episode/{episode}", "0.01", 0.0),
    ],
    ids=["no budget", "the team's", "another episode's", "its own"],
)
async def test_an_episode_that_a_budget_of_others_ended_is_not_judged(
    platform: Platform, rejecting: str, own: str | None, score: float | None
) -> None:
    ledger = platform.neighbours.ledger
    ledger.reject_after, ledger.rejecting_budget = 2, rejecting
    platform.neighbours.orchestrator.decide = in_turns(calls(call("calculator")))
    spec = {"budget": money_pb2.Money(currency_code="USD", amount=own)} if own else {}
    found = await judged(platform, check("exact", expected="42"), **spec)
    if score is None:
        why = "not the episode's own ended it: budget b is used up"
        assert not found.outcomes and found.unjudged_reason.endswith(why)
    else:
        [outcome] = found.outcomes
        assert (outcome.score, outcome.explanation) == (
            score,
            "no answer was given: budget_exhausted",
        )


async def test_feedback_is_shown_with_the_episode_and_follows_it_on_the_stream(
    platform: Platform,
) -> None:
    episode_id = (await platform.run()).id
    said = pb.GiveFeedbackRequest(
        episode_id=episode_id, score=0.5, label="half", comment="The second city is missing."
    )
    given = (await platform.ada.GiveFeedback(said)).feedback
    again = (await platform.ada.GiveFeedback(said)).feedback
    other = (
        await platform.ada.GiveFeedback(
            pb.GiveFeedbackRequest(episode_id=episode_id, id="survey-7", score=0)
        )
    ).feedback
    episode = await platform.ada.GetEpisode(pb.GetEpisodeRequest(episode_id=episode_id))
    request = pb.GetTrajectoryRequest(episode_id=episode_id)
    trajectory = await platform.ada.GetTrajectory(request)
    assert again == given
    assert (given.score, given.label) == (0.5, "half")
    assert given.created_by
    assert list(episode.episode.feedback) == list(trajectory.feedback) == [given, other]
    records = await platform.records(4)
    kinds = [record.WhichOneof("record") for record in records]
    assert kinds == ["trajectory", "group_closed", "feedback_given", "feedback_given"]
    told = records[2].feedback_given
    assert (told.episode_id, told.group_id) == (episode_id, episode_id)
    assert [each.feedback_given.feedback for each in records[2:]] == [given, other]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "score"),
        ({"score": 1.5}, "score"),
        ({"score": float("nan")}, "score"),
        ({"label": "x" * 65}, "label"),
        ({"comment": "x" * 2_001}, "comment"),
        ({"id": "x" * 65, "score": 1}, "id"),
    ],
)
async def test_feedback_that_cannot_be_taken_names_its_field(
    platform: Platform, fields: dict[str, object], param: str
) -> None:
    episode_id = (await platform.run()).id
    request = pb.GiveFeedbackRequest(episode_id=episode_id, **fields)  # type: ignore[arg-type]
    with pytest.raises(grpc.aio.AioRpcError, match=param) as caught:
        await platform.ada.GiveFeedback(request)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_other_words_under_an_id_are_rejected_and_those_before_stay(
    platform: Platform,
) -> None:
    episode_id = (await platform.run()).id
    first = pb.GiveFeedbackRequest(episode_id=episode_id, id="a", score=1)
    await platform.ada.GiveFeedback(first)
    with pytest.raises(grpc.aio.AioRpcError, match="use a new id") as caught:
        await platform.ada.GiveFeedback(
            pb.GiveFeedbackRequest(episode_id=episode_id, id="a", score=0)
        )
    found = await platform.ada.GetEpisode(pb.GetEpisodeRequest(episode_id=episode_id))
    assert caught.value.code() is grpc.StatusCode.ALREADY_EXISTS
    assert [each.score for each in found.episode.feedback] == [1]


async def test_an_episode_takes_fifty_however_many_come_at_once(platform: Platform) -> None:
    episode_id = (await platform.run()).id
    requests = [
        pb.GiveFeedbackRequest(episode_id=episode_id, id=str(number), score=1)
        for number in range(60)
    ]
    replies = await asyncio.gather(
        *(platform.ada.GiveFeedback(each) for each in requests), return_exceptions=True
    )
    found = await platform.ada.GetEpisode(pb.GetEpisodeRequest(episode_id=episode_id))
    rejected = [each for each in replies if isinstance(each, grpc.aio.AioRpcError)]
    assert {each.code() for each in rejected} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert len(rejected) == 10
    assert len(found.episode.feedback) == 50


async def test_an_episode_that_runs_takes_none(platform: Platform) -> None:
    platform.neighbours.registry.toolset = make_toolset("pay", needs_approval=True)
    platform.neighbours.orchestrator.decide = in_turns(calls(call("pay")), answer("paid"))
    episode = await asked(platform.ada)
    with pytest.raises(grpc.aio.AioRpcError, match="still runs") as caught:
        await platform.ada.GiveFeedback(pb.GiveFeedbackRequest(episode_id=episode.id, score=1))
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_feedback_is_told_to_webhooks_without_its_words(platform: Platform) -> None:
    url = f"https://example.org/feedback/{platform.tenant}"
    wanted = [webhook_service_pb2.WEBHOOK_EVENT_TYPE_FEEDBACK_GIVEN]
    async with webhooks(platform) as stub:
        await stub.PutWebhook(hook(url=url, event_types=wanted))
        episode_id = (await platform.run()).id
        given = await platform.ada.GiveFeedback(
            pb.GiveFeedbackRequest(episode_id=episode_id, score=1, comment="a secret")
        )
        (body,) = await delivered(platform, url)
    assert body["type"] == "feedback.given"
    assert body["data"] == {
        "episode_id": episode_id,
        "feedback_id": given.feedback.id,
        "score": 1.0,
    }
    assert "secret" not in json.dumps(body)
