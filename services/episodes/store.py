import json
from decimal import Decimal
from typing import Any

from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.attachments.checks import UNLIMITED, FileQuota
from episodes.attachments.store import NO_FILES, Files, require_room, store_files
from episodes.errors import EpisodeConflict, EpisodeNotFound, GroupConflict, TooManyRunning
from episodes.keys import StepKind, canonical_id
from episodes.models import (
    End,
    Ending,
    EpisodeFacts,
    EpisodeState,
    Membership,
    NewEpisode,
    Progress,
    Step,
    StopReason,
    StoredEpisode,
)
from episodes.webhooks.events import episode_started
from episodes.webhooks.store import ADD_TENANT_EVENT, event_values
from podium_kit.money import Money
from podium_kit.postgres.engine import TransactionConflict, autocommit, transaction

# With a limit, counted and stored at once: `ok` says whether there is room.
INSERT = text(
    f"""
    WITH room AS MATERIALIZED (
        SELECT CASE WHEN CAST(:running_limit AS integer) = 0 THEN true
               ELSE episode_has_room(:tenant, CAST(:id AS uuid), :running_limit) END AS ok
    ),
    segment AS (
        INSERT INTO segments (digest, body) SELECT :toolset_digest, :toolset FROM room WHERE ok
        ON CONFLICT DO NOTHING
    ),
    stored AS (INSERT INTO episodes (
        id, tenant, subject, groups, spec, toolset_digest, policy_name, policy_version, labels,
        group_id, group_size, sample_index, task_id, turn_limit, time_limit_s,
        assigned
    ) SELECT
        CAST(:id AS uuid), :tenant, :subject, :groups, :spec, :toolset_digest, :policy_name,
        :policy_version, CAST(:labels AS jsonb), :group_id, :group_size, :sample_index, :task_id,
        :turn_limit, :time_limit_s, :assigned
    FROM room WHERE ok
    ON CONFLICT (id) DO NOTHING
    RETURNING id, create_time),
    facts AS (
        INSERT INTO episode_facts (
            id, tenant, subject, teams, policy, model, labels, group_id, task_id, parent_id, task,
            create_time
        ) SELECT id, :tenant, :subject, :teams, :policy_name, :model, CAST(:labels AS jsonb),
            :group_id, :task_id, CAST(:parent_id AS uuid), :task, create_time
        FROM stored
    ),
    streamed AS ({ADD_TENANT_EVENT.format(only_if="EXISTS (SELECT FROM stored)")}),
    queued AS (
        INSERT INTO episode_queue (episode_id, tenant) SELECT id, :tenant FROM stored WHERE :queued
    )
    SELECT ok, create_time,
           CASE WHEN :queued THEN pg_notify('episode_queue', CAST(id AS text)) END
    FROM room LEFT JOIN stored ON true
    """  # noqa: S608 all of it is constant
)

FOREIGN_KEY_VIOLATION = "23503"

HAS_ROOM = text("SELECT episode_has_room(:tenant, CAST(:id AS uuid), :running_limit)")

WAITS = "(s.awaits_caller OR s.awaits_approval)"
# What a running episode has done is summed from its steps; an ended one keeps its sums. It waits
# while a call of its own or of its caller's is not decided or answered, whatever else was done
# since, and while no worker continues from an answer: who gave it may not have been able to say so.
# `awaits_...` are NULL before its first step. Steps that cost nothing have a zero of the default
# currency, which says nothing of what the others cost.
_PROGRESS = """
    SELECT e.*, {toolset} AS toolset, s.awaits_approval,
           {waits} AS waits,
           COALESCE(NULLIF(e.turn_count, 0), s.turns, 0) AS turn_count,
           COALESCE(NULLIF(e.tool_call_count, 0), s.tool_calls, 0) AS tool_call_count,
           COALESCE(e.cost, s.cost) AS cost,
           COALESCE(e.currency, s.currency) AS currency,
           CASE WHEN e.stop_reason IS NULL THEN COALESCE(s.unpriced, 0)
                ELSE e.unpriced_call_count END AS unpriced_call_count
    FROM episodes e
    JOIN segments g ON g.digest = e.toolset_digest
    LEFT JOIN LATERAL (
        SELECT max(turn) AS turns, sum(cost) AS cost,
               COALESCE(max(currency) FILTER (WHERE cost <> 0), max(currency)) AS currency,
               count(*) FILTER (WHERE kind = 'tool') AS tool_calls,
               count(*) FILTER (WHERE settled AND cost IS NULL AND kind <> 'approval') AS unpriced,
               bool_or(CASE kind
                   WHEN 'client_calls' THEN NOT EXISTS (
                       SELECT FROM client_results r
                       WHERE r.episode_id = asked.episode_id AND r.turn = asked.turn
                   ) OR NOT EXISTS (
                       SELECT FROM steps later WHERE later.episode_id = asked.episode_id
                       AND later.sequence > asked.sequence
                   )
                   ELSE false
               END) AS awaits_caller,
               bool_or(CASE kind
                   WHEN 'approval' THEN NOT EXISTS (
                       SELECT FROM approval_decisions d WHERE d.episode_id = asked.episode_id
                       AND d.turn = asked.turn AND d.call_index = asked.call_index
                   ) AND NOT EXISTS (
                       SELECT FROM steps made WHERE made.episode_id = asked.episode_id
                       AND made.turn = asked.turn AND made.call_index = asked.call_index
                       AND made.kind = 'tool'
                   )
                   ELSE false
               END) AS awaits_approval
        FROM steps asked WHERE episode_id = e.id AND e.stop_reason IS NULL
    ) s ON true
"""
PROGRESS = _PROGRESS.format(toolset="g.body", waits=WAITS)
WITHOUT_TOOLSET = _PROGRESS.format(toolset="CAST('' AS bytea)", waits=WAITS)
NOT_QUEUED = "NOT EXISTS (SELECT FROM episode_queue q WHERE q.episode_id = e.id)"
# Beside the statement that ends an episode, whose values it shares.
RECORD_FACTS = """
    UPDATE episode_facts SET stop_reason = :stop_reason,
        cost = COALESCE(CAST(:cost AS numeric), 0), currency = CAST(:currency AS text),
        unpriced = CAST(:unpriced AS integer) > 0,
        tools = CAST(:tools AS text[]), failure_kinds = CAST(:failure_kinds AS integer[]),
        score = CAST(:fact_score AS double precision), credited = CAST(:credited AS text[]),
        verdict = CAST(:verdict AS double precision), training_consent = :training_consent,
        verdict_time = CASE WHEN CAST(:verdict AS double precision) IS NOT NULL
            THEN clock_timestamp() END,
        duration_ms = 1000 * extract(epoch FROM clock_timestamp() - create_time)
    WHERE id = CAST(:id AS uuid) AND stop_reason IS NULL
"""
GET = text(f"{PROGRESS} WHERE e.id = CAST(:id AS uuid) AND e.tenant = :tenant")
LOAD = text(f"{PROGRESS} WHERE e.id = CAST(:id AS uuid)")
UNFINISHED = text(
    f"{PROGRESS} WHERE e.stop_reason IS NULL AND {NOT_QUEUED}"
    " AND (CAST(:after AS uuid) IS NULL OR e.id > CAST(:after AS uuid))"
    " ORDER BY e.id LIMIT :limit"
)
HAS_ENDED = text("SELECT stop_reason IS NOT NULL FROM episodes WHERE id = CAST(:id AS uuid)")


class EpisodeStore:
    def __init__(self, engine: AsyncEngine, quota: FileQuota = UNLIMITED) -> None:
        self._engine = engine
        self._quota = quota

    async def insert(
        self,
        new: NewEpisode,
        running_limit: int = 0,
        files: Files = NO_FILES,
        *,
        queued: bool = False,
    ) -> StoredEpisode:
        """Stores an episode with its files, or returns the one of the same id and spec.

        `queued` adds it to the workers' queue; otherwise the caller starts its workflow.

        With a limit, the tenant never runs more at once, also when several are inserted at the
        same time. Raises EpisodeConflict, EpisodeNotFound, GroupConflict, TooManyRunning,
        FilesFull, TransactionConflict, and InvalidAttachments for a file without bytes.
        """
        # Without files it is one statement, and no transaction.
        begun = transaction if files.attachments else autocommit
        started = event_values(episode_started(new))
        values = {
            **_insert_values(new),
            **started,
            "running_limit": running_limit,
            "queued": queued,
        }
        try:
            async with begun(self._engine) as connection:
                row = (await connection.execute(INSERT, values)).one()
                if not row.ok:
                    raise TooManyRunning(running_limit)
                if (created := row.create_time) is not None:
                    await store_files(connection, new.tenant, new.episode_id, files, self._quota)
        except IntegrityError as error:
            if getattr(error.orig, "sqlstate", None) == FOREIGN_KEY_VIOLATION:
                # The toolset's last other episode was forgotten at this moment, and it with it.
                raise TransactionConflict from error
            place = new.membership
            raise GroupConflict(place.group_id, place.sample_index) from error
        if created is not None:
            return StoredEpisode(new, created, EpisodeState.PENDING, Progress())
        # Where another tenant has the id it is not found, as for every other request.
        stored = await self.get(new.tenant, new.episode_id)
        if stored.new.spec != new.spec:
            raise EpisodeConflict(new.episode_id)
        return stored

    async def require_room(self, new: NewEpisode, running_limit: int, files: Files) -> None:
        """Raises TooManyRunning, FilesFull. `insert` alone is exact about starts at once."""
        if running_limit or files.attachments:
            values = {"tenant": new.tenant, "id": new.episode_id, "running_limit": running_limit}
            async with transaction(self._engine) as connection:
                if running_limit and not (await connection.execute(HAS_ROOM, values)).scalar():
                    raise TooManyRunning(running_limit)
                await require_room(connection, new.tenant, files, self._quota)

    async def get(self, tenant: str, episode_id: str) -> StoredEpisode:
        if (stored_id := canonical_id(episode_id)) is None:
            raise EpisodeNotFound(episode_id)
        async with autocommit(self._engine) as connection:
            found = await connection.execute(GET, {"id": stored_id, "tenant": tenant})
            row = found.one_or_none()
        if row is None:
            raise EpisodeNotFound(episode_id)
        return episode_of(row)

    async def has_ended(self, episode_id: str) -> bool:
        async with autocommit(self._engine) as connection:
            return bool((await connection.execute(HAS_ENDED, {"id": episode_id})).scalar())

    async def load(self, episode_id: str) -> StoredEpisode:
        """Returns an episode of any tenant, for the worker that runs it. Raises EpisodeNotFound."""
        async with autocommit(self._engine) as connection:
            row = (await connection.execute(LOAD, {"id": episode_id})).one_or_none()
        if row is None:
            raise EpisodeNotFound(episode_id)
        return episode_of(row)

    async def unfinished(self, after_id: str, limit: int) -> list[StoredEpisode]:
        """Returns episodes of all tenants that a workflow has to end, in the order of their ids."""
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(UNFINISHED, {"after": after_id or None, "limit": limit})
            return [episode_of(row) for row in rows]


def _insert_values(new: NewEpisode) -> dict[str, object]:
    place = new.membership
    return {
        "id": new.episode_id,
        "tenant": new.tenant,
        "subject": new.subject,
        "groups": sorted(new.groups),
        "spec": new.spec,
        "toolset": new.toolset,
        "toolset_digest": new.toolset_digest,
        "policy_name": new.policy_name,
        "policy_version": new.policy_version,
        "labels": json.dumps(new.labels),
        "group_id": place.group_id,
        "group_size": place.size,
        "sample_index": place.sample_index,
        "task_id": place.task_id,
        "turn_limit": new.turn_limit,
        "time_limit_s": new.time_limit_s,
        "teams": new.teams,
        **vars(new.excerpt),
        "assigned": new.assigned,
    }


def facts_values(facts: EpisodeFacts) -> dict[str, object]:
    """Returns the parameters of RECORD_FACTS beside those of the end."""
    return {
        "tools": sorted(facts.tools),
        "failure_kinds": sorted(facts.failure_kinds),
        "fact_score": facts.score,
        "credited": sorted(facts.credited),
        "verdict": facts.score if facts.credited else None,
        "training_consent": facts.training_consent,
    }


def money_of(amount: Decimal | None, currency: str | None) -> Money | None:
    return None if amount is None or currency is None else Money(amount, currency)


def step_of(row: Any) -> Step:
    return Step(
        episode_id=str(row.episode_id),
        sequence=row.sequence,
        turn=row.turn,
        kind=StepKind(row.kind),
        call_index=row.call_index,
        body=row.body,
        settled=row.settled,
        cost=money_of(row.cost, row.currency),
        create_time=row.create_time,
    )


def episode_of(row: Any) -> StoredEpisode:
    return StoredEpisode(
        new=_new_episode_of(row),
        create_time=row.create_time,
        state=_state_of(row),
        progress=_progress_of(row, money_of(row.cost, row.currency)),
        ending=_ending_of(row),
        end_time=row.end_time,
        awaits_approval=bool(row.awaits_approval),
    )


def accepted_of(row: Any) -> StoredEpisode:
    return StoredEpisode(_new_episode_of(row), row.create_time, EpisodeState.PENDING, Progress())


def end_of(row: Any) -> End:
    return End(
        progress=_progress_of(row, money_of(row.total_cost, row.total_currency)),
        ending=Ending(StopReason(row.stop_reason), row.answer, row.failure),
        time=row.end_time,
    )


def _progress_of(row: Any, cost: Money | None) -> Progress:
    return Progress(
        turn_count=row.turn_count,
        tool_call_count=row.tool_call_count,
        cost=cost,
        unpriced_call_count=row.unpriced_call_count,
        usage=row.usage,
    )


def _new_episode_of(row: Any) -> NewEpisode:
    return NewEpisode(
        episode_id=str(row.id),
        tenant=row.tenant,
        subject=row.subject,
        groups=frozenset(row.groups),
        spec=row.spec,
        toolset=row.toolset,
        toolset_digest=row.toolset_digest,
        policy_name=row.policy_name,
        policy_version=row.policy_version,
        membership=Membership(row.group_id, row.group_size, row.sample_index, row.task_id),
        labels=dict(row.labels),
        turn_limit=row.turn_limit,
        time_limit_s=row.time_limit_s,
        assigned=row.assigned,
    )


def _state_of(row: Any) -> EpisodeState:
    if row.stop_reason is not None:
        return EpisodeState.FINISHED
    if row.waits is None:
        return EpisodeState.PENDING
    return EpisodeState.WAITING if row.waits else EpisodeState.RUNNING


def _ending_of(row: Any) -> Ending | None:
    if row.stop_reason is None:
        return None
    return Ending(StopReason(row.stop_reason), row.answer, row.failure)
