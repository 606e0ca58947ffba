import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from integration.episodes.neighbours import answer, call, calls, in_turns
from integration.episodes.platform_under_test import EpisodesPlatform, events, finished, start
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.common.v1 import money_pb2
from podium.episodes.v1 import check_pb2, trajectory_pb2
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
    platform: EpisodesPlatform, wanted: check_pb2.Check, **spec: Any
) -> trajectory_pb2.Trajectory:
    async with platform.client() as client:
        episode = await finished(client, (await start(client, check=wanted, **spec)).id)
        return await trajectory(client, episode.id)


async def test_outcome_names_verifier_version_score_and_reason(platform: EpisodesPlatform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(
        calls(call("calculator")), answer("It is 42")
    )
    right = await judged(platform, check("numeric", expected=42))
    wrong = await judged(platform, check("numeric", expected=41))
    [outcome] = right.outcomes
    assert (outcome.verifier, outcome.verifier_version, outcome.score) == ("numeric", "1", 1.0)
    assert [outcome.score for outcome in wrong.outcomes] == [0.0]
    assert "found 42, expected 41" in wrong.outcomes[0].explanation


async def test_the_check_never_reaches_the_model(platform: EpisodesPlatform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("no"))
    await judged(platform, check("exact", expected="xyzzy-the-secret"))
    asked = platform.neighbours.orchestrator.requests
    assert len(asked) == 2
    assert all(b"xyzzy" not in request.SerializeToString() for request in asked)
    invoked = platform.neighbours.adapters.requests
    assert all(b"xyzzy" not in request.SerializeToString() for request in invoked)


async def test_check_in_the_sandbox_is_charged_but_no_cost_of_the_policy(
    platform: EpisodesPlatform,
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


async def test_state_the_episode_left_is_compared_with_the_golden_calls(
    platform: EpisodesPlatform,
) -> None:
    def state(request: adapters_pb.InvokeRequest) -> str:
        # Golden calls run elsewhere: their state is its own.
        return "[3]" if request.key.startswith(f"{request.episode_id}/") else "[4]"

    platform.neighbours.adapters.content = state
    wanted = check("state", look=LOOK, golden_calls=[{"tool": "calculator", "arguments": {}}])
    found = await judged(platform, wanted)
    assert [call.observation.content for call in found.verifier_calls] == ["[3]", "[4]", "[4]"]
    assert [outcome.score for outcome in found.outcomes] == [0.0]
    assert (await judged(platform, check("state", look=LOOK, expected=[3]))).outcomes[0].score == 1


async def test_unreadable_verdict_is_unjudged_and_never_zero(
    platform: EpisodesPlatform,
) -> None:
    found = await judged(platform, check("llm", tool="search", reference="42"))
    assert not found.outcomes
    assert "no verdict" in found.unjudged_reason


async def test_a_verifier_rejected_by_the_budget_leaves_the_answer_unscored_with_the_reason(
    platform: EpisodesPlatform,
) -> None:
    platform.neighbours.ledger.reject_after = 1
    found = await judged(platform, check("state", look=LOOK, expected=1))
    assert not found.outcomes
    assert found.unjudged_reason == "search failed: budget b is used up"
    assert not platform.neighbours.adapters.requests


async def test_episode_without_an_answer_has_not_solved_its_task(
    platform: EpisodesPlatform,
) -> None:
    platform.neighbours.orchestrator.decide = in_turns(calls(call("calculator")))
    found = await judged(platform, check("exact", expected="42"), turn_limit=1)
    [outcome] = found.outcomes
    assert (outcome.score, outcome.explanation) == (0.0, "no answer was given: turn_limit")


async def test_verification_is_seen_in_the_watch_without_gaps(platform: EpisodesPlatform) -> None:
    platform.neighbours.adapters.content = lambda request: "[3]"
    wanted = check("state", look=LOOK, expected=[3])
    async with platform.client() as client:
        seen = await events(client, (await start(client, check=wanted)).id)
    kinds = [event.WhichOneof("event") for event in seen]
    assert kinds == ["started", "action_decided", "verifier_called", "judged", "finished"]
    assert [event.sequence for event in seen] == [1, 2, 3, 4, 5]
    assert seen[3].judged.score == 1


async def test_senseless_check_is_rejected_at_the_start(platform: EpisodesPlatform) -> None:
    senseless = {
        "there is no verifier 'guess'": check_pb2.Check(verifier="guess"),
        "not JSON": check_pb2.Check(verifier="exact", parameters_json="{"),
        "not a JSON object": check_pb2.Check(verifier="exact", parameters_json="[]"),
        "expected": check_pb2.Check(verifier="exact", parameters_json="{}"),
    }
    async with platform.client() as client:
        for why, wanted in senseless.items():
            with pytest.raises(grpc.aio.AioRpcError, match=why) as rejected:
                await start(client, check=wanted)
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
    platform: EpisodesPlatform, rejecting: str, own: str | None, score: float | None
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
