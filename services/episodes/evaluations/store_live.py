"""Live evaluations: what the tenant's traffic is assigned to, and what has come of it."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from cachetools import TTLCache
from sqlalchemy import text
from sqlalchemy.engine import Row
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.errors import AnotherIsLive
from episodes.evaluations.models import (
    TRIALS_MAX,
    EvaluationState,
    Item,
    LiveEvaluation,
    NewEvaluation,
    Shadow,
    StoredEvaluation,
)
from episodes.evaluations.sequential import ArmScores
from episodes.evaluations.store import GET, UPDATE, evaluation_of
from podium_kit.postgres.engine import autocommit, transaction

ADD = text(
    """
    INSERT INTO evaluations (tenant, id, subject, suite_digest, spec, is_live)
    VALUES (:tenant, CAST(:id AS uuid), :subject, :digest, :spec, true) ON CONFLICT DO NOTHING
    """
)
LOCK_TENANT = text("SELECT pg_advisory_xact_lock(hashtextextended('live/' || :tenant, 0))")
RUNNING = text(
    """
    SELECT * FROM evaluations WHERE is_live AND state = 'running'
        AND (CAST(:tenant AS text) IS NULL OR tenant = :tenant)
    ORDER BY tenant, id
    """
)
# The item is the user's episode; its trials are planned with it, once for a repeated start.
ASSIGN = text(
    """
    WITH counted AS (
        UPDATE evaluations SET item_count = item_count + 1
        WHERE tenant = :tenant AND id = CAST(:id AS uuid) AND state = 'running'
            AND (item_count + 1) * :trials <= :trials_max
            AND NOT EXISTS (
                SELECT FROM evaluation_trials WHERE episode_id = CAST(:item AS uuid)
            )
        RETURNING item_count - 1 AS place, suite_digest
    ),
    item AS (
        INSERT INTO evaluation_items (tenant, suite_digest, place, id, body)
        SELECT :tenant, suite_digest, place, :item, :body FROM counted
    )
    INSERT INTO evaluation_trials (
        tenant, evaluation_id, place, arm, item_place, repeat, episode_id
    )
    SELECT :tenant, CAST(:id AS uuid), place * :trials + number - 1, arm, place, 0, episode_id
    FROM counted, unnest(CAST(:arms AS text[]), CAST(:episode_ids AS uuid[]))
        WITH ORDINALITY AS planned (arm, episode_id, number)
    ON CONFLICT DO NOTHING
    """
)
# An episode is worth what its check says, or what the first feedback with a score does.
SCORES = text(
    """
    SELECT arm, count(score) AS scored, COALESCE(sum(score), 0) AS total FROM (
        SELECT t.arm, COALESCE(t.score, f.score) AS score FROM evaluation_trials t
        LEFT JOIN LATERAL (
            SELECT g.score FROM feedback g
            WHERE g.episode_id = t.episode_id AND g.score IS NOT NULL
            ORDER BY g.create_time, g.id LIMIT 1
        ) f ON true
        WHERE t.tenant = :tenant AND t.evaluation_id = CAST(:id AS uuid) AND t.end_time IS NOT NULL
    ) ended GROUP BY arm
    """
)
# Shadows whose user's episode has ended with an answer, and which are not stored themselves.
DUE = text(
    """
    SELECT t.item_place, t.episode_id AS shadow_id, e.id, e.subject, e.groups, e.spec, e.answer
    FROM evaluation_trials t
    JOIN evaluation_items i ON i.tenant = t.tenant AND i.suite_digest = :digest
        AND i.place = t.item_place
    JOIN episodes e ON e.id = CAST(i.id AS uuid) AND e.tenant = t.tenant
    WHERE t.tenant = :tenant AND t.evaluation_id = CAST(:id AS uuid) AND t.arm = :arm
        AND t.end_time IS NULL AND e.stop_reason = 'answered'
        AND NOT EXISTS (SELECT FROM episodes s WHERE s.id = t.episode_id)
    ORDER BY t.place LIMIT :limit
    """
)
ANY_NOT_RUN = text(
    """
    SELECT EXISTS (
        SELECT FROM evaluation_trials WHERE tenant = :tenant
        AND evaluation_id = CAST(:id AS uuid) AND arm = :arm AND score IS NULL
        AND stop_reason = 'budget_exhausted'
    )
    """
)
DUE_MAX = 50


# How long one that another process stopped may still be known, and the tenants of which it is.
KNOWN_S, TENANTS_MAX = 1.0, 10_000


class LiveStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._known: TTLCache[str, Sequence[LiveEvaluation]] = TTLCache(TENANTS_MAX, KNOWN_S)
        self._changes = 0

    async def add(self, new: NewEvaluation) -> StoredEvaluation:
        """Stores it, or returns the one of its id, which may have other content.

        Raises AnotherIsLive.
        """
        values = {
            "tenant": new.tenant,
            "id": new.id,
            "subject": new.subject,
            "digest": hashlib.sha256(new.id.encode()).digest(),
            "spec": new.spec,
        }
        async with transaction(self._engine) as connection:
            # Two that begin at once must not overlook each other.
            await connection.execute(LOCK_TENANT, values)
            running = await connection.execute(RUNNING, values)
            others = [str(row.id) for row in running if str(row.id) != new.id]
            if others:
                raise AnotherIsLive(others[0])
            await connection.execute(ADD, values)
            stored = evaluation_of((await connection.execute(GET, values)).one())
        self._changed(new.tenant)
        return stored

    async def known(self, tenant: str) -> Sequence[LiveEvaluation]:
        """Returns the running tests of a tenant, or those of a second ago where another process
        has begun or ended one since."""
        if (known := self._known.get(tenant)) is not None:
            return known
        changes = self._changes
        found = await self.running(tenant)
        # What was read while one began may lack it.
        if changes == self._changes:
            self._known[tenant] = found
        return found

    async def running(self, tenant: str | None = None) -> Sequence[LiveEvaluation]:
        """Returns the tests of a tenant, or of all."""
        async with autocommit(self._engine) as connection:
            return [_live(row) for row in await connection.execute(RUNNING, {"tenant": tenant})]

    async def assign(self, live: LiveEvaluation, item: Item, trials: Mapping[str, str]) -> None:
        """Plans the trials of a user's episode, ids of episodes by arm; repeating it changes
        nothing."""
        values = {
            "tenant": live.tenant,
            "id": live.id,
            "item": item.id,
            "body": item.body,
            "arms": list(trials),
            "episode_ids": list(trials.values()),
            "trials": len(trials),
            "trials_max": TRIALS_MAX,
        }
        async with autocommit(self._engine) as connection:
            await connection.execute(ASSIGN, values)

    async def scores(self, tenant: str, evaluation_id: str) -> Mapping[str, ArmScores]:
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(SCORES, {"tenant": tenant, "id": evaluation_id})
            return {row.arm: ArmScores(row.scored, row.total) for row in rows}

    async def due(self, live: LiveEvaluation, arm: str) -> Sequence[Shadow]:
        """Returns the shadows to start by an arm, the oldest first."""
        values = {
            "tenant": live.tenant,
            "id": live.id,
            "arm": arm,
            "digest": live.suite_digest,
            "limit": DUE_MAX,
        }
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(DUE, values)
            return [
                Shadow(
                    str(row.shadow_id),
                    str(row.id),
                    row.subject,
                    frozenset(row.groups),
                    bytes(row.spec),
                    row.answer,
                )
                for row in rows
            ]

    async def any_not_run(self, live: LiveEvaluation, arm: str) -> bool:
        """Returns whether a budget ended a trial of an arm."""
        values = {"tenant": live.tenant, "id": live.id, "arm": arm}
        async with autocommit(self._engine) as connection:
            return bool((await connection.execute(ANY_NOT_RUN, values)).scalar())

    async def end(self, tenant: str, evaluation_id: str, reason: str) -> None:
        values = {
            "tenant": tenant,
            "id": evaluation_id,
            "state": EvaluationState.ENDED.value,
            "reason": reason,
        }
        async with autocommit(self._engine) as connection:
            await connection.execute(UPDATE, values)
        self._changed(tenant)

    def _changed(self, tenant: str) -> None:
        self._changes += 1
        self._known.pop(tenant, None)


def _live(row: Row[Any]) -> LiveEvaluation:
    digest, spec = bytes(row.suite_digest), bytes(row.spec)
    return LiveEvaluation(row.tenant, str(row.id), row.subject, digest, spec)
