"""The step log in PostgreSQL: keyed, append-only, content-addressed.

The first writer of a step wins. An attempt that lost reads back what won, so an effect is never
recorded twice.
"""

import hashlib
from collections.abc import Sequence
from itertools import chain

from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.keys import StepKind
from episodes.models import Step
from episodes.store import step_of
from episodes.webhooks.models import Event
from episodes.webhooks.store import add_event
from podium_kit.money import Money
from podium_kit.postgres.engine import TransactionConflict, autocommit, transaction
from podium_kit.postgres.group_commit import GroupCommit

READ = text(
    """
    SELECT s.*, g.body FROM steps s JOIN segments g USING (digest)
    WHERE s.episode_id = CAST(:episode_id AS uuid) AND s.sequence > :after
    ORDER BY s.sequence
    """
)
FIND = text(
    """
    SELECT s.*, g.body FROM steps s JOIN segments g USING (digest)
    WHERE s.episode_id = CAST(:episode_id AS uuid)
    AND s.turn = :turn AND s.kind = :kind AND s.call_index = :call_index
    """
)
APPEND = text(
    """
    WITH segment AS (
        INSERT INTO segments (digest, body)
        SELECT * FROM unnest(CAST(:digests AS bytea[]), CAST(:bodies AS bytea[]))
        ON CONFLICT DO NOTHING
    )
    INSERT INTO steps (episode_id, sequence, turn, kind, call_index, digest)
    SELECT * FROM unnest(
        CAST(:episode_ids AS uuid[]), CAST(:sequences AS integer[]), CAST(:turns AS integer[]),
        CAST(:kinds AS text[]), CAST(:call_indexes AS integer[]), CAST(:digests AS bytea[])
    )
    """
)
# One statement, so one transaction. It needs no disk flush: a cost that is lost is asked from
# the ledger again, and a watcher that gets no notification polls.
SETTLE_AND_NOTIFY = text(
    """
    WITH settled AS (
        UPDATE steps SET settled = true, cost = new.cost, currency = new.currency
        FROM unnest(
            CAST(:episode_ids AS uuid[]), CAST(:sequences AS integer[]),
            CAST(:costs AS numeric[]), CAST(:currencies AS text[])
        ) AS new (episode_id, sequence, cost, currency)
        WHERE steps.episode_id = new.episode_id AND steps.sequence = new.sequence
    )
    SELECT set_config('synchronous_commit', 'off', true),
           (SELECT count(pg_notify('episode_steps', ids)) FROM unnest(CAST(:news AS text[])) AS ids)
    """
)
UNIQUE_VIOLATION = "23505"
STEPS_PER_COMMIT = 200
# A notification carries at most 8000 bytes: 200 ids of 36 characters and a comma.
IDS_PER_NOTIFICATION = 200


class StepStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._appends = GroupCommit(self._append, len, STEPS_PER_COMMIT)

    async def read(self, episode_id: str, after: int = 0) -> list[Step]:
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(READ, {"episode_id": episode_id, "after": after})
            return [step_of(row) for row in rows]

    async def find(
        self, episode_id: str, turn: int, kind: StepKind, call_index: int = 0
    ) -> Step | None:
        values = {"turn": turn, "kind": kind.value, "call_index": call_index}
        async with autocommit(self._engine) as connection:
            found = await connection.execute(FIND, {"episode_id": episode_id, **values})
            row = found.one_or_none()
        return None if row is None else step_of(row)

    async def append(self, steps: Sequence[Step], events: Sequence[Event] = ()) -> bool:
        """Stores new steps of one episode at once, in one commit with those of other episodes.

        Events, which are rare, are added for webhooks in a transaction with their steps alone.

        Returns False when another attempt already stored one of them; then none is stored, and the
        caller reads the other's. Raises TransactionConflict.
        """
        if events:
            return await self._append_with_events(steps, events)
        return await self._appends.submit(steps)

    async def _append_with_events(self, steps: Sequence[Step], events: Sequence[Event]) -> bool:
        try:
            async with transaction(self._engine) as connection:
                await connection.execute(APPEND, _append_values(steps))
                for event in events:
                    await add_event(connection, event)
        except IntegrityError as error:
            return _lost(error)
        return True

    async def _append(self, batches: list[Sequence[Step]]) -> list[bool]:
        """Raises IntegrityError when one of several batches has lost: each is tried alone then."""
        try:
            async with autocommit(self._engine) as connection:
                await connection.execute(APPEND, _append_values([*chain.from_iterable(batches)]))
        except IntegrityError as error:
            if len(batches) > 1:
                raise
            return [_lost(error)]
        return [True] * len(batches)

    async def settle(self, costs: Sequence[tuple[Step, Money | None]], news: Sequence[str]) -> None:
        values = {
            "episode_ids": [step.episode_id for step, _ in costs],
            "sequences": [step.sequence for step, _ in costs],
            "costs": [cost and cost.amount for _, cost in costs],
            "currencies": [cost and cost.currency_code for _, cost in costs],
            "news": [
                ",".join(news[start : start + IDS_PER_NOTIFICATION])
                for start in range(0, len(news), IDS_PER_NOTIFICATION)
            ],
        }
        async with autocommit(self._engine) as connection:
            await connection.execute(SETTLE_AND_NOTIFY, values)


def _lost(error: IntegrityError) -> bool:
    """Returns False where another attempt has stored a step. Raises TransactionConflict."""
    if getattr(error.orig, "sqlstate", None) == UNIQUE_VIOLATION:
        return False
    # The episode was forgotten, or at this moment the last other one with the same body.
    raise TransactionConflict from error


def _append_values(steps: Sequence[Step]) -> dict[str, object]:
    return {
        "episode_ids": [step.episode_id for step in steps],
        "sequences": [step.sequence for step in steps],
        "turns": [step.turn for step in steps],
        "kinds": [step.kind.value for step in steps],
        "call_indexes": [step.call_index for step in steps],
        "digests": [hashlib.sha256(step.body).digest() for step in steps],
        "bodies": [step.body for step in steps],
    }
