"""Ends an episode and adds its records to the outbox in one transaction."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from episodes.evaluations.models import TrialOutcome
from episodes.evaluations.store import RECORD, outcome_values
from episodes.models import Ending, EpisodeFacts, Membership, OutboxRecord, Progress, Step
from episodes.store import RECORD_FACTS, facts_values
from episodes.webhooks.events import episode_ended, record_dead_lettered
from episodes.webhooks.store import ADD_EVENT, ADD_TENANT_EVENT, add_event, event_values
from podium_kit.money import Money
from podium_kit.postgres.engine import autocommit, transaction
from podium_kit.text import storable

_FINISH = """
    UPDATE episodes SET stop_reason = :stop_reason, answer = :answer, failure = :failure,
        turn_count = :turn_count, tool_call_count = :tool_call_count, cost = :cost,
        currency = :currency, unpriced_call_count = :unpriced, usage = :usage,
        end_time = clock_timestamp()
    WHERE id = CAST(:id AS uuid) AND stop_reason IS NULL
"""
FINISH = text(_FINISH)
RECORD_TRIAL, RECORD_ENDED = text(RECORD), text(RECORD_FACTS)
_SETTLE = """
    UPDATE steps SET settled = true, cost = new.cost, currency = new.currency
    FROM unnest(
        CAST(:sequences AS integer[]), CAST(:costs AS numeric[]), CAST(:currencies AS text[])
    ) AS new (sequence, cost, currency)
    WHERE episode_id = CAST(:id AS uuid) AND steps.sequence = new.sequence
"""
SETTLE = text(_SETTLE)
# Of an episode that is a group by itself, at once: the rows are those of SETTLE, FINISH, RECORD,
# RECORD_FACTS, ADD, ADD_EVENT and ADD_TENANT_EVENT, and the same again for a repetition.
FINISH_ALONE = text(
    f"""
    WITH settled AS ({_SETTLE}),
    ended AS ({_FINISH} RETURNING id),
    trial AS ({RECORD}),
    facts AS ({RECORD_FACTS}),
    record AS (
        SELECT * FROM unnest(
            CAST(:record_ids AS text[]), CAST(:kinds AS text[]), CAST(:group_ids AS text[]),
            CAST(:digests AS bytea[]), CAST(:bodies AS bytea[]), CAST(:headers AS text[])
        ) WITH ORDINALITY AS new (record_id, kind, group_id, digest, body, headers, place)
    ),
    segment AS (
        INSERT INTO segments (digest, body) SELECT digest, body FROM record ON CONFLICT DO NOTHING
    ),
    added AS (
        INSERT INTO outbox (record_id, kind, tenant, group_id, episode_id, digest, headers)
        SELECT record_id, kind, :tenant, group_id, CAST(:id AS uuid), digest,
               CAST(headers AS jsonb)
        FROM record ORDER BY place
        ON CONFLICT (record_id) DO NOTHING
    ),
    announced AS ({ADD_EVENT.format(only_if="EXISTS (SELECT FROM ended)")}),
    streamed AS ({ADD_TENANT_EVENT.format(only_if="EXISTS (SELECT FROM ended)")}),
    dequeued AS (DELETE FROM episode_queue WHERE episode_id = CAST(:id AS uuid))
    SELECT pg_notify('episode_ends', CAST(CAST(:id AS uuid) AS text)), pg_notify('outbox', '')
    """  # noqa: S608 all of it is constant
)
ADD = text(
    """
    WITH segment AS (
        INSERT INTO segments (digest, body) VALUES (:digest, :body) ON CONFLICT DO NOTHING
    )
    INSERT INTO outbox (record_id, kind, tenant, group_id, episode_id, digest, headers)
    VALUES (:record_id, :kind, :tenant, :group_id, CAST(:episode_id AS uuid), :digest,
            CAST(:headers AS jsonb))
    ON CONFLICT (record_id) DO NOTHING
    RETURNING pg_notify('outbox', '')
    """
)
NOTIFY = text("SELECT pg_notify('episode_ends', :id)")
CHANNEL = "outbox"
LOCK_GROUP = text("SELECT pg_advisory_xact_lock(hashtextextended(:tenant || '/' || :group_id, 0))")
MEMBERS = text(
    """
    SELECT e.id, o.digest FROM outbox o JOIN episodes e ON e.id = o.episode_id
    WHERE o.tenant = :tenant AND o.group_id = :group_id AND o.kind = 'trajectory'
    ORDER BY e.sample_index
    """
)
# A batch ends before it gets larger, but holds one record at least.
PENDING = text(
    """
    SELECT * FROM (
        SELECT found.*, count(*) OVER () AS candidates, row_number() OVER oldest_first AS place,
               sum(octet_length(body)) OVER oldest_first AS batch_bytes
        FROM (
            SELECT o.id, o.record_id, o.kind, o.tenant, o.group_id, o.headers, g.body
            FROM outbox o JOIN segments g USING (digest)
            WHERE o.publish_time IS NULL AND o.dead_letter_reason IS NULL
            ORDER BY o.id LIMIT :limit
        ) found WINDOW oldest_first AS (ORDER BY id)
    ) batch WHERE place = 1 OR batch_bytes <= :batch_bytes ORDER BY place
    """
)
OLDEST_PENDING = text(
    """
    SELECT extract(epoch FROM clock_timestamp() - create_time) FROM outbox
    WHERE publish_time IS NULL AND dead_letter_reason IS NULL ORDER BY id LIMIT 1
    """
)
PUBLISHED = text(
    """
    UPDATE outbox SET publish_time = clock_timestamp(), partition_number = new.partition_number,
        record_offset = new.record_offset
    FROM unnest(
        CAST(:ids AS bigint[]), CAST(:partitions AS integer[]), CAST(:offsets AS bigint[])
    ) AS new (id, partition_number, record_offset)
    WHERE outbox.id = new.id
    """
)
DEAD = text("UPDATE outbox SET dead_letter_reason = :reason WHERE id = :id")
UNCONFIRMED = text(
    """
    SELECT id, record_id, encode(digest, 'hex') AS digest, partition_number, record_offset
    FROM outbox WHERE publish_time IS NOT NULL AND confirm_time IS NULL ORDER BY id LIMIT :limit
    """
)
CONFIRM = text(
    "UPDATE outbox SET confirm_time = clock_timestamp() WHERE id = ANY(CAST(:ids AS bigint[]))"
)
HIGH_WATER = text(
    "SELECT partition_number, max(record_offset) AS record_offset FROM outbox"
    " WHERE publish_time > now() - make_interval(secs => :window_s) AND confirm_time IS NOT NULL"
    " GROUP BY partition_number"
)
UNCONFIRM = text(
    "UPDATE outbox SET confirm_time = NULL"
    " WHERE publish_time > now() - make_interval(secs => :window_s)"
)
REQUEUE = text(
    "UPDATE outbox SET publish_time = NULL, confirm_time = NULL, partition_number = NULL,"
    " record_offset = NULL"
    " WHERE id = ANY(CAST(:ids AS bigint[]))"
)
TRAJECTORY = text(
    """
    SELECT g.body FROM outbox o JOIN segments g USING (digest)
    WHERE o.episode_id = CAST(:id AS uuid) AND o.tenant = :tenant AND o.kind = 'trajectory'
    """
)


@dataclass(frozen=True)
class PendingRecord:
    row_id: int
    record: OutboxRecord


@dataclass(frozen=True)
class PublishedRecord:
    row_id: int
    record_id: str
    digest: str
    partition: int
    offset: int


@dataclass(frozen=True)
class GroupMember:
    episode_id: str
    digest: str


class OutboxStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def finish(
        self,
        episode_id: str,
        place: Membership,
        ending: Ending,
        progress: Progress,
        records: Sequence[OutboxRecord],
        *,
        costs: Sequence[tuple[Step, Money | None]],
        outcome: TrialOutcome,
        facts: EpisodeFacts,
    ) -> list[GroupMember]:
        """Ends an episode, stores the costs of its steps and the outcome of its trial, if it is
        one, adds its records and notifies watchers; repeating it changes nothing.

        Returns the finished members of a group of several, in sample order.
        """
        if place.size == 1:
            await self._finish_alone(
                episode_id, ending, progress, records, costs=costs, outcome=outcome, facts=facts
            )
            return []
        async with transaction(self._engine) as connection:
            await connection.execute(SETTLE, _settle_values(episode_id, costs))
            finished = _finish_values(episode_id, ending, progress)
            ended = await connection.execute(FINISH, finished)
            trial = outcome_values(records[0].tenant, outcome)
            await connection.execute(RECORD_TRIAL, {**finished, **trial})
            await connection.execute(RECORD_ENDED, {**finished, **facts_values(facts)})
            if ended.rowcount:
                await add_event(connection, episode_ended(records[0], episode_id, ending, progress))
            # Two last members at once must not both miss the other.
            await connection.execute(LOCK_GROUP, _group_values(records[0]))
            for record in records:
                await add_record(connection, record, episode_id)
            rows = (await connection.execute(MEMBERS, _group_values(records[0]))).all()
            await connection.execute(NOTIFY, {"id": episode_id})
        return [GroupMember(str(row.id), row.digest.hex()) for row in rows]

    async def _finish_alone(
        self,
        episode_id: str,
        ending: Ending,
        progress: Progress,
        records: Sequence[OutboxRecord],
        *,
        costs: Sequence[tuple[Step, Money | None]],
        outcome: TrialOutcome,
        facts: EpisodeFacts,
    ) -> None:
        values = {
            **_settle_values(episode_id, costs),
            **_finish_values(episode_id, ending, progress),
            **outcome_values(records[0].tenant, outcome),
            **facts_values(facts),
            **event_values(episode_ended(records[0], episode_id, ending, progress)),
            "record_ids": [record.record_id for record in records],
            "kinds": [record.kind for record in records],
            "group_ids": [record.group_id for record in records],
            "digests": [hashlib.sha256(record.body).digest() for record in records],
            "bodies": [record.body for record in records],
            "headers": [json.dumps(record.headers) for record in records],
        }
        async with autocommit(self._engine) as connection:
            await connection.execute(FINISH_ALONE, values)

    async def add(self, record: OutboxRecord) -> None:
        """Adds a record that no single episode made. Repeating it changes nothing."""
        async with autocommit(self._engine) as connection:
            await add_record(connection, record, None)

    async def pending(self, limit: int, batch_bytes: int) -> tuple[list[PendingRecord], bool]:
        """Returns the oldest records that are not on the stream, and whether there are more.

        Bodies have `batch_bytes` together at most, unless the first alone has more.
        """
        values = {"limit": limit + 1, "batch_bytes": batch_bytes}
        async with autocommit(self._engine) as connection:
            rows = (await connection.execute(PENDING, values)).all()
        batch = [
            PendingRecord(
                row.id,
                OutboxRecord(
                    row.record_id, row.kind, row.tenant, row.group_id, row.body, dict(row.headers)
                ),
            )
            for row in rows[:limit]
        ]
        return batch, bool(rows) and rows[0].candidates > len(batch)

    async def oldest_pending_s(self) -> float:
        async with autocommit(self._engine) as connection:
            return float((await connection.execute(OLDEST_PENDING)).scalar() or 0)

    async def mark_published(self, placed: Sequence[tuple[int, int, int]]) -> None:
        values = {
            "ids": [row_id for row_id, _, _ in placed],
            "partitions": [partition for _, partition, _ in placed],
            "offsets": [offset for _, _, offset in placed],
        }
        async with autocommit(self._engine) as connection:
            await connection.execute(PUBLISHED, values)

    async def mark_dead(self, entry: PendingRecord, reason: str) -> None:
        async with transaction(self._engine) as connection:
            await connection.execute(DEAD, {"id": entry.row_id, "reason": reason})
            await add_event(connection, record_dead_lettered(entry.record, reason))

    async def unconfirmed(self, limit: int) -> list[PublishedRecord]:
        async with autocommit(self._engine) as connection:
            rows = (await connection.execute(UNCONFIRMED, {"limit": limit})).all()
        return [
            PublishedRecord(
                row.id, row.record_id, row.digest, row.partition_number, row.record_offset
            )
            for row in rows
        ]

    async def confirm(self, row_ids: Sequence[int]) -> None:
        async with autocommit(self._engine) as connection:
            await connection.execute(CONFIRM, {"ids": list(row_ids)})

    async def high_water(self, window_s: float) -> dict[int, int]:
        """Returns the largest offset per partition that was read back within the window.

        Records that are to be read again do not count.
        """
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(HIGH_WATER, {"window_s": window_s})
            return {row.partition_number: row.record_offset for row in rows}

    async def unconfirm(self, window_s: float) -> None:
        """Revokes the confirmations within the window, because the topic has lost its end."""
        async with autocommit(self._engine) as connection:
            await connection.execute(UNCONFIRM, {"window_s": window_s})

    async def requeue(self, row_ids: Sequence[int]) -> None:
        async with autocommit(self._engine) as connection:
            await connection.execute(REQUEUE, {"ids": list(row_ids)})

    async def trajectory(self, tenant: str, episode_id: str) -> bytes | None:
        async with autocommit(self._engine) as connection:
            row = (
                await connection.execute(TRAJECTORY, {"id": episode_id, "tenant": tenant})
            ).one_or_none()
        return row.body if row else None


async def add_record(
    connection: AsyncConnection, record: OutboxRecord, episode_id: str | None
) -> None:
    values = {
        "record_id": record.record_id,
        "kind": record.kind,
        "tenant": record.tenant,
        "group_id": record.group_id,
        "episode_id": episode_id,
        "digest": hashlib.sha256(record.body).digest(),
        "body": record.body,
        "headers": json.dumps(record.headers),
    }
    await connection.execute(ADD, values)


def _group_values(record: OutboxRecord) -> dict[str, object]:
    return {"tenant": record.tenant, "group_id": record.group_id}


def _settle_values(
    episode_id: str, costs: Sequence[tuple[Step, Money | None]]
) -> dict[str, object]:
    return {
        "id": episode_id,
        "sequences": [step.sequence for step, _ in costs],
        "costs": [cost and cost.amount for _, cost in costs],
        "currencies": [cost and cost.currency_code for _, cost in costs],
    }


def _finish_values(episode_id: str, ending: Ending, progress: Progress) -> dict[str, object]:
    cost = progress.cost
    return {
        "id": episode_id,
        "stop_reason": ending.stop_reason.value,
        "answer": storable(ending.answer),
        "failure": ending.failure,
        "turn_count": progress.turn_count,
        "tool_call_count": progress.tool_call_count,
        "cost": cost and cost.amount,
        "currency": cost and cost.currency_code,
        "unpriced": progress.unpriced_call_count,
        "usage": progress.usage,
    }
