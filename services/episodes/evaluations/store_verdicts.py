from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.evaluations.models import JudgeVerdict, VerdictPosition, known_money
from podium_kit.postgres.engine import autocommit
from podium_kit.text import storable

# A verdict stays; what a judge left without a score may be judged later.
ADD = text(
    """
    INSERT INTO evaluation_verdicts (
        tenant, evaluation_id, place, judge, prompt_digest, verifier, verifier_version, score,
        explanation, call_id, cost, currency
    ) VALUES (
        :tenant, CAST(:id AS uuid), :place, :judge, :prompt_digest, :verifier, :verifier_version,
        :score, :explanation, :call_id, :cost, :currency
    )
    ON CONFLICT (tenant, evaluation_id, place, judge, prompt_digest) DO UPDATE SET
        score = EXCLUDED.score, explanation = EXCLUDED.explanation, call_id = EXCLUDED.call_id,
        cost = EXCLUDED.cost, currency = EXCLUDED.currency, create_time = clock_timestamp()
    WHERE evaluation_verdicts.score IS NULL
    """
)
NOT_ENDED = text(
    """
    SELECT place FROM unnest(CAST(:places AS integer[])) AS asked (place) WHERE NOT EXISTS (
        SELECT FROM evaluation_trials t WHERE t.tenant = :tenant
        AND t.evaluation_id = CAST(:id AS uuid) AND t.place = asked.place AND t.end_time IS NOT NULL
    ) ORDER BY place
    """
)
LIST = text(
    """
    SELECT v.*, t.episode_id FROM evaluation_verdicts v
    JOIN evaluation_trials t USING (tenant, evaluation_id, place)
    WHERE v.tenant = :tenant AND v.evaluation_id = CAST(:id AS uuid)
        AND (v.place, v.judge, v.prompt_digest) > (:place, :judge, :prompt_digest)
    ORDER BY v.place, v.judge, v.prompt_digest LIMIT :limit
    """
)
BEFORE_ALL = (-1, "", "")


class VerdictStore:
    """Verdicts of judges that were asked about a run's trials after they had ended."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def add(self, tenant: str, evaluation_id: str, verdicts: Sequence[JudgeVerdict]) -> None:
        rows = [
            {
                "tenant": tenant,
                "id": evaluation_id,
                "place": each.place,
                "judge": each.judge,
                "prompt_digest": each.prompt_digest,
                "verifier": each.verifier,
                "verifier_version": each.verifier_version,
                "score": each.score,
                "explanation": storable(each.explanation),
                "call_id": each.call_id,
                "cost": each.cost.amount if each.cost else None,
                "currency": each.cost.currency_code if each.cost else None,
            }
            for each in verdicts
        ]
        async with autocommit(self._engine) as connection:
            await connection.execute(ADD, rows)

    async def not_ended(
        self, tenant: str, evaluation_id: str, places: Sequence[int]
    ) -> Sequence[int]:
        """Returns those of the places that are no trial which has ended."""
        values = {"tenant": tenant, "id": evaluation_id, "places": list(places)}
        async with autocommit(self._engine) as connection:
            return list((await connection.execute(NOT_ENDED, values)).scalars())

    async def list(
        self, tenant: str, evaluation_id: str, after: VerdictPosition | None, limit: int
    ) -> Sequence[JudgeVerdict]:
        place, judge, prompt_digest = after or BEFORE_ALL
        values = {
            "tenant": tenant,
            "id": evaluation_id,
            "place": place,
            "judge": judge,
            "prompt_digest": prompt_digest,
            "limit": limit,
        }
        async with autocommit(self._engine) as connection:
            return [
                JudgeVerdict(
                    row.place,
                    row.judge,
                    row.prompt_digest,
                    row.verifier,
                    row.verifier_version,
                    row.score,
                    row.explanation,
                    row.call_id,
                    known_money(row.cost, row.currency),
                    str(row.episode_id),
                    row.create_time,
                )
                for row in await connection.execute(LIST, values)
            ]
