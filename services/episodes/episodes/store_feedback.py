from collections.abc import Callable, Sequence

from sqlalchemy import text
from sqlalchemy.engine import Row
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.competence.store import RECORD_FEEDBACK
from episodes.models import Feedback, OutboxRecord
from episodes.publication.store_outbox import add_record
from episodes.webhooks.events import feedback_given
from episodes.webhooks.store import add_event
from podium_kit.postgres.engine import autocommit, transaction

# The lock makes the count true when several are given at once.
LOCK = text("SELECT id FROM episodes WHERE id = CAST(:episode_id AS uuid) FOR UPDATE")
OTHERS = text(
    "SELECT count(*) FROM feedback WHERE episode_id = CAST(:episode_id AS uuid) AND id <> :id"
)
INSERT = text(
    """
    INSERT INTO feedback (episode_id, id, score, label, comment, created_by)
    VALUES (CAST(:episode_id AS uuid), :id, :score, :label, :comment, :created_by)
    ON CONFLICT (episode_id, id) DO NOTHING RETURNING *
    """
)
ONE = text("SELECT * FROM feedback WHERE episode_id = CAST(:episode_id AS uuid) AND id = :id")
ALL = text(
    "SELECT * FROM feedback WHERE episode_id = CAST(:episode_id AS uuid) ORDER BY create_time, id"
)


class FeedbackStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def give(
        self,
        episode_id: str,
        feedback: Feedback,
        record_of: Callable[[Feedback], OutboxRecord],
        maximum: int,
    ) -> Feedback | None:
        """Stores feedback, or returns the one of its id; None when the episode has that many
        others."""
        values = {
            "episode_id": episode_id,
            "id": feedback.id,
            "score": feedback.score,
            "label": feedback.label,
            "comment": feedback.comment,
            "created_by": feedback.created_by,
        }
        async with transaction(self._engine) as connection:
            await connection.execute(LOCK, values)
            if (await connection.execute(OTHERS, values)).scalar_one() >= maximum:
                return None
            row = (await connection.execute(INSERT, values)).one_or_none()
            if row is None:
                return _feedback((await connection.execute(ONE, values)).one())
            stored = _feedback(row)
            if stored.score is not None:
                await connection.execute(RECORD_FEEDBACK, values)
            record = record_of(stored)
            await add_record(connection, record, episode_id)
            event = feedback_given(record.tenant, episode_id, stored.id, stored.score)
            await add_event(connection, event)
            return stored

    async def of(self, episode_id: str) -> Sequence[Feedback]:
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(ALL, {"episode_id": episode_id})
            return [_feedback(row) for row in rows]


def _feedback(row: Row[tuple[object, ...]]) -> Feedback:
    return Feedback(row.id, row.score, row.label, row.comment, row.created_by, row.create_time)
