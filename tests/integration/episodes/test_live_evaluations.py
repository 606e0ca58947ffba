"""Live traffic: an A/B test that ends by itself, and shadows without effects."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from callers import code_of
from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import Platform, finished, new_id, start
from integration.episodes.test_evaluations import DEVELOPER, evaluations, trials
from podium.episodes.v1 import check_pb2, episode_pb2
from podium.episodes.v1 import episode_service_pb2 as episodes_pb
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium.registry.v1 import tool_pb2
from podium_kit.rpc.identity import Scope

if TYPE_CHECKING:
    from podium.episodes.v1.evaluation_service_pb2_grpc import EvaluationServiceAsyncStub

ADMIN = (*DEVELOPER, Scope.TENANT_ADMIN, Scope.TRAJECTORIES_READ)
CHECK = check_pb2.Check(verifier="numeric", parameters_json='{"expected": 42}')


@asynccontextmanager
async def admin_of(platform: Platform) -> AsyncIterator["EvaluationServiceAsyncStub"]:
    async with evaluations(platform, "root", ADMIN) as client:
        yield client


def live(use: "pb.LiveUse.ValueType" = pb.LIVE_USE_AB, **fields: Any) -> pb.Evaluation:
    traffic = {"share": 0.5, **fields.pop("traffic", {})}
    candidate = {"name": "new", "policy": "candidate", **fields.pop("candidate", {})}
    return pb.Evaluation(
        id=new_id(),
        suite="live",
        arms=[pb.EvaluationArm(name="old"), pb.EvaluationArm(**candidate)],
        traffic=pb.LiveTraffic(use=use, **traffic),
        **fields,
    )


async def begin(client: "EvaluationServiceAsyncStub", wanted: pb.Evaluation) -> pb.Evaluation:
    request = pb.StartLiveEvaluationRequest(evaluation=wanted)
    return (await client.StartLiveEvaluation(request)).evaluation


async def stop(client: "EvaluationServiceAsyncStub", id: str) -> pb.Evaluation:
    request = pb.StopLiveEvaluationRequest(evaluation_id=id, reason="enough")
    return (await client.StopLiveEvaluation(request)).evaluation


async def get(client: "EvaluationServiceAsyncStub", id: str) -> pb.GetEvaluationResponse:
    return await client.GetEvaluation(pb.GetEvaluationRequest(evaluation_id=id))


async def until_ended(client: "EvaluationServiceAsyncStub", id: str) -> pb.GetEvaluationResponse:
    while (found := await get(client, id)).evaluation.state != pb.EVALUATION_STATE_ENDED:
        pass
    return found


async def users(platform: Platform, count: int, **spec: Any) -> list[episode_pb2.Episode]:
    return [
        await finished(platform.ada, (await start(platform.ada, **spec)).id) for _ in range(count)
    ]


async def test_a_share_of_the_traffic_gets_the_candidate_and_as_many_are_compared(
    platform: Platform,
) -> None:
    async with admin_of(platform) as admin:
        run = await begin(admin, live())
        ended = await users(platform, 24)
        found = await get(admin, run.id)
        listed = await trials(admin, run.id)
        await stop(admin, run.id)
    assert len(listed) == 24 and {each.arm for each in listed} == {"old", "new"}
    assert {each.episode_id for each in listed} == {each.id for each in ended}
    used = [each.policy_name for each in ended]
    assert used.count("candidate") == sum(each.arm == "new" for each in listed)
    # The caller sees the order that it gave, and a start that is repeated is the same.
    assert {each.spec.policy for each in ended} == {""}
    again = episodes_pb.StartEpisodeRequest(episode_id=ended[0].id, spec=ended[0].spec)
    assert (await platform.ada.StartEpisode(again)).episode.id == ended[0].id
    old, new = found.progress
    assert old.unjudged_count + new.unjudged_count == 24
    assert float(old.cost.amount) > 0 and float(new.cost.amount) > 0


async def test_it_begins_and_ends_with_its_request(platform: Platform) -> None:
    async with admin_of(platform) as admin:
        await users(platform, 1)
        run = await begin(admin, live())
        await users(platform, 2)
        await stop(admin, run.id)
        await users(platform, 1)
        assert len(await trials(admin, run.id)) == 2


async def test_episodes_that_name_a_model_or_another_policy_are_left_alone(
    platform: Platform,
) -> None:
    async with admin_of(platform) as admin:
        run = await begin(admin, live(traffic={"policy": "users"}))
        await users(platform, 2)
        await users(platform, 2, policy="users", model="scripted")
        await users(platform, 2, policy="users", labels={"evaluation": "other"})
        assert not await trials(admin, run.id)
        await users(platform, 2, policy="users")
        assert len(await trials(admin, run.id)) == 2
        await stop(admin, run.id)


async def test_an_ab_test_ends_by_itself_once_an_arm_is_surely_worse(platform: Platform) -> None:
    """The candidate's model is always wrong; feedback says so where there is no check."""
    platform.neighbours.orchestrator.decide = lambda request: answer(
        "41" if request.model == "scripted" else "42"
    )
    async with admin_of(platform) as admin:
        run = await begin(admin, live(candidate={"policy": "", "model": "scripted"}))
        for number in range(60):
            [ended] = await users(platform, 1, **({} if number % 2 else {"check": CHECK}))
            if number % 2:
                await platform.ada.GiveFeedback(
                    episodes_pb.GiveFeedbackRequest(
                        episode_id=ended.id, score=float(ended.answer == "42")
                    )
                )
            found = await get(admin, run.id)
            if found.evaluation.state == pb.EVALUATION_STATE_ENDED:
                break
        found = await until_ended(admin, run.id)
        assert "the candidate is worse: -1.000" in found.evaluation.reason
        assert found.comparison.upper < 0 and found.comparison.p_value < 0.05
        scored = found.comparison.baseline_count + found.comparison.candidate_count
        assert scored < 60, "it was not stopped early"
        # Users are back with what they ask for, at the latest a second later.
        counted = len(await trials(admin, run.id))
        while (await users(platform, 1))[0].answer != "42":
            pass
        assert len(await trials(admin, run.id)) == counted


async def test_a_shadow_replays_an_answered_episode_without_its_effects(
    platform: Platform,
) -> None:
    toolset = make_toolset("look_up", "order")
    toolset.tools[0].side_effect = tool_pb2.SIDE_EFFECT_PURE
    toolset.tools[1].side_effect = tool_pb2.SIDE_EFFECT_EFFECTFUL
    platform.neighbours.registry.toolset = toolset
    order = calls(call("look_up"), call("order", '{"item": "tea"}', 1))
    platform.neighbours.orchestrator.decide = in_turns(order, answer("42"))
    wanted = live(pb.LIVE_USE_SHADOW, budget_id="shadows", traffic={"share": 1.0})
    async with admin_of(platform) as admin:
        run = await begin(admin, wanted)
        [ended] = await users(platform, 1, check=CHECK)
        listed = await trials(admin, run.id)
        while listed[-1].state != pb.TRIAL_STATE_JUDGED:
            listed = await trials(admin, run.id)
        await stop(admin, run.id)
    own, shadow = listed
    assert (own.arm, own.episode_id, shadow.arm) == ("old", ended.id, "new")
    assert own.item_id == shadow.item_id == ended.id
    assert (own.score, shadow.score) == (1, 1)
    called = [each.tool_name for each in platform.neighbours.adapters.requests]
    assert called.count("order") == 1 and called.count("look_up") == 2
    trajectory = await platform.trajectory(shadow.episode_id)
    assert trajectory.replay_of == ended.id
    assert dict(trajectory.labels) == {"evaluation": run.id, "agent": "shadows"}
    held = platform.neighbours.ledger.holds[f"{shadow.episode_id}/1/model/0"]
    assert held.subject.agent == "shadows"


async def test_shadows_end_with_their_budget(platform: Platform) -> None:
    wanted = live(pb.LIVE_USE_SHADOW, budget_id="shadows", traffic={"share": 1.0})
    # The user's episode makes one call, and the shadow's is one more.
    ledger = platform.neighbours.ledger
    ledger.reject_after, ledger.rejecting_budget = 1, "shadows"
    async with admin_of(platform) as admin:
        run = await begin(admin, wanted)
        [ended] = await users(platform, 1)
        found = await until_ended(admin, run.id)
    assert found.evaluation.reason == "a budget of its shadows is spent"
    assert ended.stop_reason == episode_pb2.STOP_REASON_ANSWERED


async def test_only_an_admin_evaluates_live_traffic_and_one_evaluation_at_a_time(
    platform: Platform,
) -> None:
    async with evaluations(platform) as ada, admin_of(platform) as admin:
        assert await code_of(begin(ada, live())) is grpc.StatusCode.PERMISSION_DENIED
        first = live()
        assert await begin(admin, first) == await begin(admin, first)
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await begin(admin, live())
        assert first.id in (rejected.value.details() or "")
        update = pb.UpdateEvaluationRequest(
            evaluation_id=first.id, state=pb.EVALUATION_STATE_PAUSED
        )
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await admin.UpdateEvaluation(update)
        assert "stop it instead" in (rejected.value.details() or "")
        stopped = await stop(admin, first.id)
        assert stopped.reason == "enough" and stopped == await stop(admin, first.id)
        second = await begin(admin, live())
        await stop(admin, second.id)


async def test_of_those_that_begin_at_once_one_runs(platform: Platform) -> None:
    async with admin_of(platform) as admin:
        begun = await asyncio.gather(
            *(begin(admin, live()) for _ in range(8)), return_exceptions=True
        )
        running = [each for each in begun if isinstance(each, pb.Evaluation)]
        assert len(running) == 1
        await stop(admin, running[0].id)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (live(traffic={"share": 0.6}), "give one up to 0.5"),
        (live(traffic={"share": 0.0}), "traffic.share is 0"),
        (live(candidate={"policy": ""}), "neither a model nor a policy"),
        (live(pb.LIVE_USE_SHADOW), "give their budget_id"),
        (live(traffic={"judges": ["ask"]}), "traffic.judges are for shadows"),
        (live(candidate={"name": "old"}), "two arms are called old"),
    ],
)
async def test_a_live_evaluation_that_makes_no_sense_is_rejected(
    platform: Platform, wanted: pb.Evaluation, words: str
) -> None:
    async with admin_of(platform) as admin:
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await begin(admin, wanted)
    assert rejected.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert words in (rejected.value.details() or ""), json.dumps(rejected.value.details())
