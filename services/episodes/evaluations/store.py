import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import text
from sqlalchemy.engine import Row
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.errors import TooManyEvaluations
from episodes.evaluations.models import (
    ArmProgress,
    EnvironmentVerdict,
    EvaluationState,
    Item,
    JudgeVote,
    NewEvaluation,
    PlannedTrial,
    StoredEvaluation,
    StoredTrial,
    TrialOutcome,
    TrialState,
    known_money,
)
from podium_kit.money import Money
from podium_kit.postgres.engine import autocommit, transaction
from podium_kit.text import storable

# Part of the statement that ends an episode; of an episode that is no trial it changes nothing.
RECORD = """
    UPDATE evaluation_trials SET end_time = clock_timestamp(), stop_reason = :stop_reason,
        score = :trial_score, explanation = :trial_explanation, cost = :trial_cost,
        orchestrator_cost = :trial_orchestrator_cost, judge_cost = :trial_judge_cost,
        currency = :trial_currency,
        unpriced_call_count = :trial_unpriced, latency_s = :trial_latency_s,
        turn_count = :turn_count, tool_call_count = :tool_call_count,
        call_counts = CAST(:trial_call_counts AS jsonb), votes = CAST(:trial_votes AS jsonb)
    WHERE episode_id = CAST(:id AS uuid) AND tenant = :tenant AND end_time IS NULL
"""
ADD_ITEMS = text(
    """
    INSERT INTO evaluation_items (tenant, suite_digest, place, id, body)
    SELECT :tenant, :digest, place - 1, id, body
    FROM unnest(CAST(:ids AS text[]), CAST(:bodies AS bytea[]))
        WITH ORDINALITY AS new (id, body, place)
    ON CONFLICT DO NOTHING
    """
)
ADD = text(
    """
    INSERT INTO evaluations (tenant, id, subject, suite_digest, spec)
    VALUES (:tenant, CAST(:id AS uuid), :subject, :digest, :spec) ON CONFLICT DO NOTHING
    """
)
ADD_TRIALS = text(
    """
    INSERT INTO evaluation_trials (
        tenant, evaluation_id, place, arm, item_place, repeat, episode_id, awaits_verdict
    )
    SELECT :tenant, CAST(:id AS uuid), * FROM unnest(
        CAST(:places AS integer[]), CAST(:arms AS text[]), CAST(:item_places AS integer[]),
        CAST(:repeats AS integer[]), CAST(:episode_ids AS uuid[]), CAST(:awaiting AS boolean[])
    )
    """
)
COUNT = text("SELECT count(*) FROM evaluations WHERE tenant = :tenant")
GET = text("SELECT * FROM evaluations WHERE tenant = :tenant AND id = CAST(:id AS uuid)")
LIST = text(
    """
    SELECT * FROM evaluations WHERE tenant = :tenant
        AND (CAST(:before AS uuid) IS NULL OR id < CAST(:before AS uuid))
        AND (CAST(:subject AS text) IS NULL OR subject = :subject)
    ORDER BY id DESC LIMIT :limit
    """
)
UPDATE = text(
    """
    UPDATE evaluations SET state = :state, reason = :reason,
        end_time = CASE WHEN :state = 'ended' THEN clock_timestamp() END
    WHERE tenant = :tenant AND id = CAST(:id AS uuid) AND (state, reason) <> (:state, :reason)
    """
)
# Of a trial that its episode's own limits ended, the score is there already.
RECORD_VERDICT = text(
    """
    UPDATE evaluation_trials SET awaits_verdict = false, score = COALESCE(score, :score),
        explanation = CASE WHEN score IS NULL THEN :explanation ELSE explanation END,
        stop_reason = CASE WHEN :not_run THEN 'budget_exhausted' ELSE stop_reason END,
        simulator_cost = :simulator_cost, judge_cost = :judge_cost,
        currency = COALESCE(currency, :currency),
        unpriced_call_count = unpriced_call_count + :unpriced, votes = CAST(:votes AS jsonb)
    WHERE tenant = :tenant AND evaluation_id = CAST(:id AS uuid) AND place = :place
        AND awaits_verdict AND end_time IS NOT NULL
    """
)
# A trial that another one's budget ended has no score; what its own ended was judged.
_STATE = """
    CASE WHEN t.end_time IS NOT NULL AND t.awaits_verdict THEN 'running'
        WHEN t.end_time IS NOT NULL THEN CASE
            WHEN t.score IS NOT NULL THEN 'judged'
            WHEN t.stop_reason = 'budget_exhausted' THEN 'not_run'
            WHEN t.stop_reason = 'diverged' THEN 'diverged' ELSE 'unjudged' END
        WHEN EXISTS (SELECT FROM episodes e WHERE e.id = t.episode_id) THEN 'running'
        WHEN v.state = 'ended' THEN 'not_run' ELSE 'planned' END
"""
PROGRESS = text(
    f"""
    SELECT arm, state, count(*) AS trials, sum(score) AS score_sum, sum(cost) AS cost,
        sum(judge_cost) AS judge_cost, sum(simulator_cost) AS simulator_cost,
        max(currency) AS currency, sum(unpriced_call_count) AS unpriced
    FROM (
        SELECT t.*, {_STATE} AS state FROM evaluation_trials t
        JOIN evaluations v ON v.tenant = t.tenant AND v.id = t.evaluation_id
        WHERE t.tenant = :tenant AND t.evaluation_id = CAST(:id AS uuid)
    ) trial GROUP BY arm, state
    """  # noqa: S608 all of it is constant
)
TRIALS = text(
    f"""
    SELECT t.*, {_STATE} AS state, i.id AS item_id,
        CASE WHEN :with_items THEN i.body ELSE '' END AS body
    FROM evaluation_trials t
    JOIN evaluations v ON v.tenant = t.tenant AND v.id = t.evaluation_id
    JOIN evaluation_items i ON i.tenant = v.tenant AND i.suite_digest = v.suite_digest
        AND i.place = t.item_place
    WHERE t.tenant = :tenant AND t.evaluation_id = CAST(:id AS uuid) AND t.place >= :first
    ORDER BY t.place LIMIT :limit
    """  # noqa: S608 all of it is constant
)


def outcome_values(tenant: str, outcome: TrialOutcome) -> dict[str, object]:
    """Parameters of RECORD beside those of the episode's own end."""
    known = (outcome.cost, outcome.orchestrator_cost, outcome.judge_cost)
    costs = [each for each in known if each is not None]
    return {
        "tenant": tenant,
        "trial_score": outcome.score,
        "trial_explanation": storable(outcome.explanation),
        "trial_cost": _amount(outcome.cost),
        "trial_orchestrator_cost": _amount(outcome.orchestrator_cost),
        "trial_judge_cost": _amount(outcome.judge_cost),
        "trial_currency": costs[0].currency_code if costs else None,
        "trial_unpriced": outcome.unpriced_call_count,
        "trial_latency_s": outcome.latency_s,
        "trial_call_counts": json.dumps(dict(outcome.call_counts)),
        "trial_votes": _votes(outcome.votes),
    }


def _votes(votes: Sequence[JudgeVote]) -> str:
    return json.dumps([{**v.values(), "explanation": storable(v.explanation)} for v in votes])


def _amount(money: Money | None) -> Decimal | None:
    return None if money is None else money.amount


class EvaluationStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def add(self, new: NewEvaluation, runs_max: int) -> StoredEvaluation:
        """Stores the run, its suite and its trials, and returns the run of that id, which may be
        an earlier one. Raises TooManyEvaluations."""
        planned = list(new.trials())
        values = {
            "tenant": new.tenant,
            "id": new.id,
            "subject": new.subject,
            "digest": new.suite_digest,
            "spec": new.spec,
        }
        async with transaction(self._engine) as connection:
            count = (await connection.execute(COUNT, values)).scalar_one()
            if count >= runs_max:
                raise TooManyEvaluations(count)
            # Before its items: retention deletes those of no run.
            if (await connection.execute(ADD, values)).rowcount:
                items = {"ids": [i.id for i in new.items], "bodies": [i.body for i in new.items]}
                await connection.execute(ADD_ITEMS, {**values, **items})
                trials = {
                    "places": [each.place for each in planned],
                    "arms": [each.arm for each in planned],
                    "item_places": [each.item_place for each in planned],
                    "repeats": [each.repeat for each in planned],
                    "episode_ids": [each.episode_id for each in planned],
                    "awaiting": [each.awaits_verdict for each in planned],
                }
                await connection.execute(ADD_TRIALS, {**values, **trials})
            return evaluation_of((await connection.execute(GET, values)).one())

    async def get(self, tenant: str, evaluation_id: str) -> StoredEvaluation | None:
        async with autocommit(self._engine) as connection:
            values = {"tenant": tenant, "id": evaluation_id}
            row = (await connection.execute(GET, values)).one_or_none()
        return None if row is None else evaluation_of(row)

    async def list(
        self, tenant: str, subject: str | None, before: str | None, limit: int
    ) -> Sequence[StoredEvaluation]:
        values = {"tenant": tenant, "subject": subject, "before": before, "limit": limit}
        async with autocommit(self._engine) as connection:
            return [evaluation_of(row) for row in await connection.execute(LIST, values)]

    async def update(
        self, tenant: str, evaluation_id: str, state: EvaluationState, reason: str
    ) -> None:
        values = {"tenant": tenant, "id": evaluation_id, "state": state.value, "reason": reason}
        async with autocommit(self._engine) as connection:
            await connection.execute(UPDATE, values)

    async def record_verdict(
        self, tenant: str, evaluation_id: str, verdict: EnvironmentVerdict
    ) -> None:
        """Records it, unless the trial has one or its episode has not ended."""
        costs = [each for each in (verdict.simulator_cost, verdict.judge_cost) if each is not None]
        values = {
            "tenant": tenant,
            "id": evaluation_id,
            "place": verdict.place,
            "score": verdict.score,
            "explanation": storable(verdict.explanation),
            "not_run": verdict.not_run,
            "simulator_cost": verdict.simulator_cost.amount if verdict.simulator_cost else None,
            "judge_cost": verdict.judge_cost.amount if verdict.judge_cost else None,
            "currency": costs[0].currency_code if costs else None,
            "unpriced": verdict.unpriced_call_count,
            "votes": _votes(verdict.votes),
        }
        async with autocommit(self._engine) as connection:
            await connection.execute(RECORD_VERDICT, values)

    async def progress(
        self, tenant: str, evaluation_id: str, arms: Sequence[str]
    ) -> Sequence[ArmProgress]:
        async with autocommit(self._engine) as connection:
            values = {"tenant": tenant, "id": evaluation_id}
            rows = (await connection.execute(PROGRESS, values)).all()
        return [_progress(arm, [row for row in rows if row.arm == arm]) for arm in arms]

    async def trials(
        self, tenant: str, evaluation_id: str, first: int, limit: int, *, with_items: bool
    ) -> Sequence[StoredTrial]:
        values = {
            "tenant": tenant,
            "id": evaluation_id,
            "first": first,
            "limit": limit,
            "with_items": with_items,
        }
        async with autocommit(self._engine) as connection:
            return [_trial(row) for row in await connection.execute(TRIALS, values)]


def evaluation_of(row: Row[Any]) -> StoredEvaluation:
    return StoredEvaluation(
        str(row.id),
        row.subject,
        bytes(row.spec),
        bytes(row.suite_digest),
        EvaluationState(row.state),
        row.reason,
        row.create_time,
        row.end_time,
        row.is_live,
    )


def _progress(arm: str, rows: Sequence[Row[Any]]) -> ArmProgress:
    currency = next((row.currency for row in rows if row.currency), "USD")

    def total(name: str) -> Money:
        known = [cost for row in rows if (cost := getattr(row, name))]
        return Money(sum(known, Money.zero(currency).amount), currency)

    return ArmProgress(
        arm,
        {TrialState(row.state): row.trials for row in rows},
        sum(row.score_sum or 0.0 for row in rows),
        total("cost"),
        total("judge_cost"),
        total("simulator_cost"),
        sum(row.unpriced for row in rows),
    )


def _trial(row: Row[Any]) -> StoredTrial:
    return StoredTrial(
        PlannedTrial(
            row.place, row.arm, row.item_place, row.repeat, str(row.episode_id), row.awaits_verdict
        ),
        Item(row.item_id, bytes(row.body)),
        TrialState(row.state),
        row.stop_reason or "",
        TrialOutcome(
            row.score,
            row.explanation,
            known_money(row.cost, row.currency),
            known_money(row.orchestrator_cost, row.currency),
            known_money(row.judge_cost, row.currency),
            row.unpriced_call_count,
            row.latency_s or 0.0,
            row.call_counts,
            known_money(row.simulator_cost, row.currency),
            list(map(JudgeVote.of, row.votes)),
        ),
        row.turn_count,
        row.tool_call_count,
    )
