"""Calls that wait for a person, in PostgreSQL.

The decision is in the episode's workflow; that one was made is stored here as well, because a turn
continues, and so shows in the step log, only when all of its calls are decided.
"""

from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.approvals.models import ApprovalPosition, WaitingCall
from episodes.webhooks.events import approval_decided
from episodes.webhooks.store import ADD_TENANT_EVENT, event_values
from podium_kit.postgres.engine import autocommit
from podium_kit.rpc.pages import PAGE_BYTES_MAX

DECIDED = text(
    f"""
    WITH decided AS (
        INSERT INTO approval_decisions (episode_id, turn, call_index)
        VALUES (CAST(:episode_id AS uuid), :turn, :call_index) ON CONFLICT DO NOTHING
        RETURNING episode_id
    )
    {ADD_TENANT_EVENT.format(only_if="EXISTS (SELECT FROM decided)")}
    """  # noqa: S608 all of it is constant
)
# A page ends before it gets larger, but holds one call at least.
WAITING = text(
    """
    SELECT * FROM (
        SELECT found.*, count(*) OVER () AS candidates, row_number() OVER in_order AS place,
               sum(octet_length(body)) OVER in_order AS page_bytes
        FROM (
            SELECT s.episode_id, s.turn, s.call_index, s.create_time, e.subject, e.groups,
                   g.body, t.body AS toolset, f.policy, f.task
            FROM steps s JOIN episodes e ON e.id = s.episode_id
            JOIN episode_facts f ON f.id = s.episode_id
            JOIN segments g ON g.digest = s.digest JOIN segments t ON t.digest = e.toolset_digest
            WHERE e.tenant = :tenant AND e.stop_reason IS NULL AND s.kind = 'approval'
                AND (CAST(:episode_id AS uuid) IS NULL OR (s.episode_id, s.turn, s.call_index)
                     > (CAST(:episode_id AS uuid), CAST(:turn AS int), CAST(:call_index AS int)))
                AND NOT EXISTS (
                    SELECT FROM steps made WHERE made.episode_id = s.episode_id
                    AND made.turn = s.turn AND made.call_index = s.call_index AND made.kind = 'tool'
                )
                AND NOT EXISTS (
                    SELECT FROM approval_decisions d WHERE d.episode_id = s.episode_id
                    AND d.turn = s.turn AND d.call_index = s.call_index
                )
            ORDER BY s.episode_id, s.turn, s.call_index LIMIT :limit
        ) found WINDOW in_order AS (ORDER BY episode_id, turn, call_index)
    ) page WHERE place = 1 OR page_bytes <= :page_bytes ORDER BY place
    """
)


class ApprovalStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def decided(self, tenant: str, place: ApprovalPosition, *, approved: bool) -> None:
        """Records that a call is decided. Repeating it changes nothing."""
        event = approval_decided(
            tenant, place.episode_id, place.turn, place.call_index, approved=approved
        )
        async with autocommit(self._engine) as connection:
            await connection.execute(DECIDED, {**vars(place), **event_values(event)})

    async def waiting(
        self, tenant: str, after: ApprovalPosition | None, size: int
    ) -> tuple[list[WaitingCall], bool]:
        values = {
            "tenant": tenant,
            "episode_id": after and after.episode_id,
            "turn": after and after.turn,
            "call_index": after and after.call_index,
            "limit": size + 1,
            "page_bytes": PAGE_BYTES_MAX,
        }
        async with autocommit(self._engine) as connection:
            rows = (await connection.execute(WAITING, values)).all()
        page = [_call_of(row) for row in rows[:size]]
        return page, bool(rows) and rows[0].candidates > len(page)


def _call_of(row: Any) -> WaitingCall:
    return WaitingCall(
        place=ApprovalPosition(str(row.episode_id), row.turn, row.call_index),
        started_by=row.subject,
        groups=frozenset(row.groups),
        request=row.body,
        toolset=row.toolset,
        policy_name=row.policy,
        task=row.task,
        create_time=row.create_time,
    )
