"""Deletes ended episodes: steps, answers, files, trajectories, feedback. The ledger keeps costs.
Deletes ended runs of evaluations with their trials, and the items that no other run has.
"""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from podium_kit.postgres.engine import transaction

INTERVAL_S = 600.0
GROUPS_AT_ONCE = 200
RUNS_AT_ONCE = 20
# A group goes as one, once all of its members have ended and no record of it is pending: a
# record that was never read back from the topic would be lost. PostgreSQL checks the references of
# a statement at its end, so one statement deletes what refers to each other.
FORGET = text(
    """
    WITH due AS (
        SELECT e.tenant, e.group_id FROM episodes e
        WHERE e.end_time < now() - make_interval(days => :days) AND NOT EXISTS (
            SELECT FROM outbox o WHERE o.tenant = e.tenant AND o.group_id = e.group_id
                AND o.confirm_time IS NULL
        )
        GROUP BY e.tenant, e.group_id HAVING count(*) = max(e.group_size) LIMIT :groups
    ), gone AS (
        SELECT tenant, id FROM episodes JOIN due USING (tenant, group_id)
    ), graded AS (
        DELETE FROM feedback WHERE episode_id IN (SELECT id FROM gone)
    ), decided AS (
        DELETE FROM approval_decisions WHERE episode_id IN (SELECT id FROM gone)
    ), results AS (
        DELETE FROM client_results WHERE episode_id IN (SELECT id FROM gone)
    ), attached AS (
        DELETE FROM attachments WHERE (tenant, owner_id) IN (SELECT tenant, id FROM gone)
    ), step AS (
        DELETE FROM steps WHERE episode_id IN (SELECT id FROM gone) RETURNING digest
    ), record AS (
        DELETE FROM outbox USING due
        WHERE (outbox.tenant, outbox.group_id) = (due.tenant, due.group_id) RETURNING digest
    ), episode AS (
        DELETE FROM episodes WHERE id IN (SELECT id FROM gone) RETURNING toolset_digest
    )
    SELECT (SELECT count(*) FROM due) AS groups, array(
        SELECT digest FROM step UNION SELECT digest FROM record
        UNION SELECT toolset_digest FROM episode
    ) AS digests
    """
)
# Bodies are shared by their content: only those that nothing refers to any more.
UNREFERENCED = """
    NOT EXISTS (SELECT FROM steps WHERE digest = s.digest)
    AND NOT EXISTS (SELECT FROM outbox WHERE digest = s.digest)
    AND NOT EXISTS (SELECT FROM episodes WHERE toolset_digest = s.digest)
"""
OF_DIGESTS = "DELETE FROM segments s WHERE s.digest = ANY(CAST(:digests AS bytea[])) AND"
FORGET_BODIES = text(f"{OF_DIGESTS} {UNREFERENCED}")


# A run is stored before its items, so none that is being stored is overlooked.
LOCK_EVALUATIONS = text("LOCK TABLE evaluations IN SHARE ROW EXCLUSIVE MODE")
FORGET_EVALUATIONS = text(
    """
    DELETE FROM evaluations WHERE (tenant, id) IN (
        SELECT tenant, id FROM evaluations
        WHERE state = 'ended' AND end_time < now() - make_interval(days => :days) LIMIT :runs
    )
    """
)
FORGET_ITEMS = text(
    """
    DELETE FROM evaluation_items i WHERE NOT EXISTS (
        SELECT FROM evaluations v WHERE v.tenant = i.tenant AND v.suite_digest = i.suite_digest
    )
    """
)


class RetentionStore:
    def __init__(self, engine: AsyncEngine, days: int, evaluation_days: int) -> None:
        """With 0 days nothing is deleted, of episodes or of evaluations."""
        self._engine = engine
        self._days = days
        self._evaluation_days = evaluation_days

    async def forget(self) -> bool:
        """Deletes a batch; True where more may be left."""
        more = [await self._forget_episodes(), await self._forget_evaluations()]
        return any(more)

    async def _forget_evaluations(self) -> bool:
        if not self._evaluation_days:
            return False
        values = {"days": self._evaluation_days, "runs": RUNS_AT_ONCE}
        async with transaction(self._engine) as connection:
            await connection.execute(LOCK_EVALUATIONS)
            gone = (await connection.execute(FORGET_EVALUATIONS, values)).rowcount
            if gone:
                await connection.execute(FORGET_ITEMS)
        return gone == RUNS_AT_ONCE

    async def _forget_episodes(self) -> bool:
        if not self._days:
            return False
        values = {"days": self._days, "groups": GROUPS_AT_ONCE}
        async with transaction(self._engine) as connection:
            found = (await connection.execute(FORGET, values)).one()
            await connection.execute(FORGET_BODIES, {"digests": found.digests})
        return int(found.groups) == GROUPS_AT_ONCE
