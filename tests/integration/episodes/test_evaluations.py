"""A run of an evaluation plans its trials, and the end of an episode records what became of its."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
import grpc
import pytest

from callers import client_channel, code_of, make_identity
from episodes.episodes.store_retention import RetentionStore
from integration.episodes.neighbours import answer, call, calls, in_turns
from integration.episodes.platform_under_test import RUNS_MAX, Platform, finished, new_id
from podium.common.v1 import money_pb2
from podium.episodes.v1 import check_pb2, episode_pb2, episode_service_pb2
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium.episodes.v1.evaluation_service_pb2_grpc import EvaluationServiceStub
from podium_kit.postgres.engine import open_engine
from podium_kit.rpc.identity import Scope

if TYPE_CHECKING:
    from podium.episodes.v1.evaluation_service_pb2_grpc import EvaluationServiceAsyncStub

CENT = money_pb2.Money(amount="0.01", currency_code="USD")
DEVELOPER = (Scope.EPISODES_RUN,)


@asynccontextmanager
async def evaluations(
    platform: Platform, subject: str = "ada", scopes: tuple[Scope, ...] = DEVELOPER
) -> AsyncIterator["EvaluationServiceAsyncStub"]:
    identity = make_identity(platform.tenant, subject, scopes=scopes)
    async with client_channel(platform.port, identity, platform.keys) as channel:
        yield EvaluationServiceStub(channel)


def item(id: str, verifier: str = "numeric", **parameters: Any) -> pb.EvaluationItem:
    check = check_pb2.Check(
        verifier=verifier, parameters_json=json.dumps(parameters or {"expected": 42})
    )
    return pb.EvaluationItem(id=id, family="sums", question=f"what is {id}?", check=check)


def evaluation(*arms: str, id: str = "", repeats: int = 1, **fields: Any) -> pb.Evaluation:
    return pb.Evaluation(
        id=id or new_id(),
        suite="sums",
        arms=[pb.EvaluationArm(name=arm) for arm in arms or ("podium",)],
        repeats=repeats,
        **fields,
    )


async def create(
    client: "EvaluationServiceAsyncStub", wanted: pb.Evaluation, *items: pb.EvaluationItem
) -> pb.Evaluation:
    request = pb.CreateEvaluationRequest(evaluation=wanted, items=items or [item("one")])
    return (await client.CreateEvaluation(request)).evaluation


async def trials(client: "EvaluationServiceAsyncStub", id: str, **fields: Any) -> list[pb.Trial]:
    reply = await client.ListTrials(pb.ListTrialsRequest(evaluation_id=id, **fields))
    return list(reply.trials)


async def play(platform: Platform, trial: pb.Trial, **spec: Any) -> episode_pb2.Episode:
    asked = episode_pb2.EpisodeSpec(task=trial.item.question, check=trial.item.check, **spec)
    await platform.ada.StartEpisode(
        episode_service_pb2.StartEpisodeRequest(episode_id=trial.episode_id, spec=asked)
    )
    return await finished(platform.ada, trial.episode_id)


async def played(platform: Platform, wanted: pb.EvaluationItem, **spec: Any) -> pb.Trial:
    """The only trial of a run, once its episode has ended."""
    async with evaluations(platform) as client:
        run = await create(client, evaluation(), wanted)
        [planned] = await trials(client, run.id, with_items=True)
        assert planned.state == pb.TRIAL_STATE_PLANNED
        await play(platform, planned, **spec)
        [ended] = await trials(client, run.id)
    return ended


async def test_every_arm_plays_an_item_before_the_next_item_begins(platform: Platform) -> None:
    async with evaluations(platform) as client:
        run = await create(client, evaluation("a", "b", repeats=2), item("one"), item("two"))
        found = await trials(client, run.id)
        assert [(each.repeat, each.item_id, each.arm) for each in found] == [
            (repeat, name, arm) for repeat in (0, 1) for name in ("one", "two") for arm in "ab"
        ]
        assert [each.place for each in found] == list(range(8))
        assert len({each.episode_id for each in found}) == 8
        assert run.state == pb.EVALUATION_STATE_RUNNING and len(run.suite_digest) == 64
        page = await client.ListTrials(pb.ListTrialsRequest(evaluation_id=run.id, page_size=5))
        after = await trials(client, run.id, page_token=page.next_page_token, with_items=True)
        assert [each.place for each in after] == [5, 6, 7]
        assert after[0].item.question == "what is one?"


async def test_the_same_run_is_created_once_and_another_of_its_id_is_rejected(
    platform: Platform,
) -> None:
    wanted = evaluation("a", comparability_key={"benchmark": "sums 1"})
    async with evaluations(platform) as client:
        first = await create(client, wanted)
        assert await create(client, wanted) == first
        for other in (evaluation("b", id=wanted.id), evaluation("a", id=wanted.id, repeats=2)):
            with pytest.raises(grpc.aio.AioRpcError) as rejected:
                await create(client, other)
            assert rejected.value.code() is grpc.StatusCode.ALREADY_EXISTS
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await create(client, wanted, item("another"))
        assert "created with other content" in (rejected.value.details() or "")
        assert len(await trials(client, first.id)) == 1


async def test_the_end_of_an_episode_records_the_verdict_and_the_cost_of_its_trial(
    platform: Platform,
) -> None:
    platform.neighbours.orchestrator.decide = in_turns(
        calls(call("calculator")), answer("It is 42")
    )
    trial = await played(platform, item("one"))
    assert trial.state == pb.TRIAL_STATE_JUDGED
    assert (trial.score, trial.stop_reason) == (1.0, episode_pb2.STOP_REASON_ANSWERED)
    assert "found 42" in trial.explanation
    trajectory = await platform.trajectory(trial.episode_id)
    assert trial.cost == trajectory.features.cost
    assert not trial.HasField("judge_cost")
    assert trial.latency == trajectory.features.latency
    assert (trial.turn_count, trial.tool_call_count) == (2, 1)


async def test_a_wrong_answer_is_judged_and_an_unjudged_one_has_no_score(
    platform: Platform,
) -> None:
    platform.neighbours.orchestrator.decide = in_turns(answer("It is 41"))
    wrong = await played(platform, item("one"))
    assert (wrong.state, wrong.score) == (pb.TRIAL_STATE_JUDGED, 0.0)
    judge = item("one", "llm", judges="search", reference="42")
    unjudged = await played(platform, judge)
    assert unjudged.state == pb.TRIAL_STATE_UNJUDGED and not unjudged.HasField("score")
    assert unjudged.explanation


@pytest.mark.parametrize(
    ("budget", "state"),
    [
        ("of-the-run", pb.TRIAL_STATE_NOT_RUN),
        ("episode/{episode}", pb.TRIAL_STATE_JUDGED),
    ],
)
async def test_a_trial_is_wrong_by_its_own_budget_and_not_run_by_another(
    platform: Platform, budget: str, state: pb.TrialState.ValueType
) -> None:
    ledger = platform.neighbours.ledger
    ledger.reject_after, ledger.rejecting_budget = 0, budget
    own = money_pb2.Money(amount="1", currency_code="USD")
    trial = await played(platform, item("one"), budget=own)
    assert trial.stop_reason == episode_pb2.STOP_REASON_BUDGET_EXHAUSTED
    assert trial.state == state
    assert trial.HasField("score") is (state == pb.TRIAL_STATE_JUDGED)
    assert trial.score == 0


async def test_a_run_that_ended_leaves_its_planned_trials_unrun(platform: Platform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(answer("It is 42"))
    async with evaluations(platform) as client:
        run = await create(client, evaluation("a", "b"))
        first, _ = await trials(client, run.id, with_items=True)
        await play(platform, first)
        paused = await update(client, run.id, pb.EVALUATION_STATE_PAUSED)
        assert paused.state == pb.EVALUATION_STATE_PAUSED and not paused.HasField("end_time")
        ended = await update(client, run.id, pb.EVALUATION_STATE_ENDED, "the budget is spent")
        assert (ended.reason, ended.HasField("end_time")) == ("the budget is spent", True)
        assert ended == await update(client, run.id, ended.state, ended.reason)
        found = await client.GetEvaluation(pb.GetEvaluationRequest(evaluation_id=run.id))
        played_arm, other = found.progress
        assert (played_arm.judged_count, played_arm.score_sum, other.not_run_count) == (1, 1.0, 1)
        assert float(played_arm.cost.amount) > 0
        states = [each.state for each in await trials(client, run.id)]
        assert states == [pb.TRIAL_STATE_JUDGED, pb.TRIAL_STATE_NOT_RUN]


async def verdict(
    client: "EvaluationServiceAsyncStub", id: str, place: int = 0, **fields: Any
) -> pb.Trial:
    request = pb.RecordVerdictRequest(evaluation_id=id, place=place, **fields)
    return (await client.RecordVerdict(request)).trial


CONVERSATION = item(
    "call", "environment", environment="shop", task={"id": "1"}, user_model="ask_llm/large"
)


async def test_the_environment_of_a_conversation_judges_its_trial_once(platform: Platform) -> None:
    platform.neighbours.orchestrator.decide = in_turns(answer("Goodbye"))
    spent = money_pb2.Money(amount="0.25", currency_code="USD")
    async with evaluations(platform) as client, evaluations(platform, "bob") as bob:
        run = await create(client, evaluation(), CONVERSATION)
        [planned] = await trials(client, run.id, with_items=True)
        early = verdict(client, run.id, score=1)
        assert await code_of(early) is grpc.StatusCode.FAILED_PRECONDITION
        await play(platform, planned)
        [ended] = await trials(client, run.id)
        assert (ended.state, ended.stop_reason) == (
            pb.TRIAL_STATE_RUNNING,
            episode_pb2.STOP_REASON_ANSWERED,
        )
        assert await code_of(verdict(bob, run.id, score=1)) is grpc.StatusCode.NOT_FOUND
        assert await code_of(verdict(client, run.id, place=1)) is grpc.StatusCode.NOT_FOUND
        judged = await verdict(
            client,
            run.id,
            score=0.5,
            explanation="half of it",
            simulator_cost=spent,
            judge_cost=money_pb2.Money(amount="0.5", currency_code="USD"),
            unpriced_call_count=1,
        )
        assert await verdict(client, run.id, score=1, explanation="another") == judged
        found = await client.GetEvaluation(pb.GetEvaluationRequest(evaluation_id=run.id))
    assert (judged.state, judged.score) == (pb.TRIAL_STATE_JUDGED, 0.5)
    assert (judged.explanation, judged.unpriced_call_count) == ("half of it", 1)
    [arm] = found.progress
    assert float(judged.simulator_cost.amount) == float(arm.simulator_cost.amount) == 0.25
    assert float(arm.judge_cost.amount) == 0.5


@pytest.mark.parametrize(
    ("limits", "given", "state"),
    [
        ({"turn_limit": 1}, {}, pb.TRIAL_STATE_JUDGED),
        ({}, {"explanation": "it diverged"}, pb.TRIAL_STATE_UNJUDGED),
        ({}, {"not_run": True}, pb.TRIAL_STATE_NOT_RUN),
    ],
)
async def test_a_conversation_without_a_verdict_is_wrong_by_its_own_limits_alone(
    platform: Platform,
    limits: dict[str, Any],
    given: dict[str, Any],
    state: pb.TrialState.ValueType,
) -> None:
    platform.neighbours.orchestrator.decide = in_turns(
        calls(call("calculator")) if limits else answer("Goodbye")
    )
    async with evaluations(platform) as client:
        run = await create(client, evaluation(), CONVERSATION)
        [planned] = await trials(client, run.id, with_items=True)
        await play(platform, planned, **limits)
        trial = await verdict(client, run.id, **given)
    assert trial.state == state
    assert trial.HasField("score") is bool(limits) and trial.score == 0


async def update(
    client: "EvaluationServiceAsyncStub",
    id: str,
    state: pb.EvaluationState.ValueType,
    reason: str = "",
) -> pb.Evaluation:
    request = pb.UpdateEvaluationRequest(evaluation_id=id, state=state, reason=reason)
    return (await client.UpdateEvaluation(request)).evaluation


async def test_a_run_is_read_by_its_subject_and_by_readers_of_trajectories(
    platform: Platform,
) -> None:
    reader = (Scope.TRAJECTORIES_READ,)
    async with (
        evaluations(platform) as ada,
        evaluations(platform, "bob") as bob,
        evaluations(platform, "eve", reader) as eve,
    ):
        run = await create(ada, evaluation())
        assert len(await trials(eve, run.id)) == 1
        assert await code_of(trials(bob, run.id)) is grpc.StatusCode.NOT_FOUND
        assert await code_of(update(bob, run.id, pb.EVALUATION_STATE_ENDED)) is (
            grpc.StatusCode.NOT_FOUND
        )
        own = await create(bob, evaluation())
        for client, expected in ((bob, [own.id]), (eve, [own.id, run.id])):
            listed = await client.ListEvaluations(pb.ListEvaluationsRequest())
            assert [each.id for each in listed.evaluations] == expected
        page = await eve.ListEvaluations(pb.ListEvaluationsRequest(page_size=1))
        token = page.next_page_token
        rest = await eve.ListEvaluations(pb.ListEvaluationsRequest(page_token=token))
        assert [each.id for each in rest.evaluations] == [run.id]


async def test_an_arm_without_a_model_or_a_price_is_rejected(platform: Platform) -> None:
    platform.neighbours.ledger.without_price.add("orchestrator/scripted")
    rejections = {
        "": "arm a: its orchestrator scripted has no price (SKU orchestrator/scripted)",
        "nosuch": "there is no orchestrator model nosuch",
        "rule/best": "rule/worth, rule/cheapest",
    }
    async with evaluations(platform) as client:
        for model, words in rejections.items():
            wanted = evaluation("a")
            wanted.arms[0].model = model
            with pytest.raises(grpc.aio.AioRpcError) as rejected:
                await create(client, wanted)
            assert words in (rejected.value.details() or "")
        wanted = evaluation("a")
        wanted.arms[0].model = "rule/cheapest"
        await create(client, wanted)


BACKDATED = "UPDATE evaluations SET end_time = now() - interval '3 days' WHERE tenant = $1"
ITEMS = "SELECT id FROM evaluation_items WHERE tenant = $1 ORDER BY id"


async def test_a_tenant_that_stores_its_most_runs_is_rejected_until_old_ones_are_forgotten(
    platform: Platform,
) -> None:
    async with evaluations(platform) as client:
        runs = [await create(client, evaluation(), item("one")) for _ in range(RUNS_MAX - 1)]
        runs.append(await create(client, evaluation(), item("two")))
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await create(client, evaluation())
        assert rejected.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        for name in ("EPISODES_WORKER_KEEP_EVALUATIONS_DAYS", "EPISODES_EVALUATIONS_PER_TENANT"):
            assert name in (rejected.value.details() or "")
        assert await create(client, runs[0]) == runs[0], "one that is stored is stored"
        for run in runs[1:]:
            await update(client, run.id, pb.EVALUATION_STATE_ENDED)
        connection = await asyncpg.connect(platform.database_url.replace("+asyncpg", ""))
        engine = open_engine(platform.database_url)
        try:
            await connection.execute(f"{BACKDATED} AND state = 'ended'", platform.tenant)
            await RetentionStore(engine, days=0, evaluation_days=0).forget()
            assert len(await connection.fetch(ITEMS, platform.tenant)) == 2
            await RetentionStore(engine, days=0, evaluation_days=2).forget()
            kept = [row["id"] for row in await connection.fetch(ITEMS, platform.tenant)]
        finally:
            await connection.close()
            await engine.dispose()
        assert kept == ["one"]
        listed = await client.ListEvaluations(pb.ListEvaluationsRequest())
        assert [each.id for each in listed.evaluations] == [runs[0].id]
        assert await code_of(trials(client, runs[1].id)) is grpc.StatusCode.NOT_FOUND
        await create(client, evaluation())


@pytest.mark.parametrize(
    ("wanted", "items", "words"),
    [
        (evaluation("a", "a"), [item("one")], "two arms are called a"),
        (evaluation(), [item("one"), item("one")], "two items have the id one"),
        (evaluation(repeats=65), [item("one")], "repeats"),
        (evaluation(id="1"), [item("one")], "UUIDv7"),
        (evaluation(" "), [item("one")], "letters, digits"),
    ],
)
async def test_a_run_that_makes_no_sense_is_rejected(
    platform: Platform, wanted: pb.Evaluation, items: list[pb.EvaluationItem], words: str
) -> None:
    async with evaluations(platform) as client:
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await create(client, wanted, *items)
    assert rejected.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert words in (rejected.value.details() or "")


async def test_a_judges_verdict_stays_and_one_without_a_score_is_replaced(
    platform: Platform,
) -> None:
    platform.neighbours.orchestrator.decide = in_turns(answer("It is 42"))
    async with evaluations(platform) as ada, evaluations(platform, "bob") as bob:
        run = await create(ada, evaluation("a", "b"))
        first, _ = await trials(ada, run.id, with_items=True)
        await play(platform, first)

        async def record(client: "EvaluationServiceAsyncStub", **fields: Any) -> None:
            wanted = {"judge": "ask", "verifier": "llm", "prompt_digest": "0" * 64, **fields}
            request = pb.RecordVerdictsRequest(
                evaluation_id=run.id, verdicts=[pb.Verdict(**wanted)]
            )
            await client.RecordVerdicts(request)

        await record(ada, explanation="it mumbled")
        await record(ada, score=1.0)
        await record(ada, score=0.0)
        await record(ada, judge="other", score=0.0, cost=CENT)
        listed = await ada.ListVerdicts(pb.ListVerdictsRequest(evaluation_id=run.id, page_size=1))
        [verdict], token = listed.verdicts, listed.next_page_token
        assert (verdict.judge, verdict.score, verdict.episode_id) == ("ask", 1, first.episode_id)
        rest = await ada.ListVerdicts(
            pb.ListVerdictsRequest(evaluation_id=run.id, page_token=token)
        )
        assert [(each.judge, each.score) for each in rest.verdicts] == [("other", 0.0)]
        # The own check's verdict is what it was.
        assert (await trials(ada, run.id))[0].score == 1

        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await record(ada, place=1, score=1.0)
        assert "trial 1 of the run has not ended" in (rejected.value.details() or "")
        assert await code_of(record(bob, score=1.0)) is grpc.StatusCode.NOT_FOUND


async def test_the_figures_of_a_run_are_stored_for_those_who_may_read_it(
    platform: Platform,
) -> None:
    async with evaluations(platform) as ada, evaluations(platform, "bob") as bob:
        run = await create(ada, evaluation())
        reading = pb.GetEvaluationReportRequest(evaluation_id=run.id)
        assert await code_of(ada.GetEvaluationReport(reading)) is grpc.StatusCode.NOT_FOUND
        for report in ('{"arms": ["first"]}', '{"arms": ["\\u0000 second"]}'):
            storing = pb.RecordEvaluationReportRequest(evaluation_id=run.id, report_json=report)
            await ada.RecordEvaluationReport(storing)
            found = await ada.GetEvaluationReport(reading)
            assert found.report_json == report and found.HasField("create_time")
        assert await code_of(bob.GetEvaluationReport(reading)) is grpc.StatusCode.NOT_FOUND
        assert await code_of(bob.RecordEvaluationReport(storing)) is grpc.StatusCode.NOT_FOUND
        for wrong in ("", "{", "[]", "[" * 100_000):
            storing = pb.RecordEvaluationReportRequest(evaluation_id=run.id, report_json=wrong)
            code = await code_of(ada.RecordEvaluationReport(storing))
            assert code is grpc.StatusCode.INVALID_ARGUMENT, wrong[:9]
    async with evaluations(platform, "eve", (Scope.TRAJECTORIES_READ,)) as eve:
        assert (await eve.GetEvaluationReport(reading)).report_json == report
        assert await code_of(eve.RecordEvaluationReport(storing)) is (
            grpc.StatusCode.PERMISSION_DENIED
        )
