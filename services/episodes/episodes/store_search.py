"""Lists of episodes: filters and orders over episode_facts, whose rows then lead to the episodes.

Running and ended episodes have indexes of their own, so a list reads each apart and merges them.
"""

import json
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from episodes.episodes.search import (
    BucketCount,
    EpisodeCounts,
    EpisodeFilter,
    EpisodePage,
    FacetCount,
    FoundEpisode,
    PagePosition,
    SearchOrder,
)
from episodes.errors import SearchTooSlow
from episodes.models import EpisodeExcerpt, EpisodeFacts, EpisodeState, StopReason
from episodes.store import WAITS, WITHOUT_TOOLSET, episode_of, money_of
from podium_kit.postgres.engine import transaction
from podium_kit.rpc.pages import PAGE_BYTES_MAX, InvalidPageToken

SEARCH_TIMEOUT_S = 2
QUERY_CANCELED = "57014"
COUNTED_MAX = 10_000
# A word is common where this many of the newest have it, or else from this many episodes on.
SAMPLED, COMMON_IN_SAMPLE, RARE_MAX = 1_000, 50, 10_000
FACETS_OF = 20_000
SERIES_OF = 100_000
VALUES_MAX = 20
BUCKETS_MAX = 500
# As cost and duration are stored.
NUMBER = re.compile(r"[0-9]{1,16}(\.[0-9]{1,12})?")

ENDED, RUNNING = "f.stop_reason IS NOT NULL", "f.stop_reason IS NULL"
RUNNING_STATES = {
    EpisodeState.PENDING: f"{WAITS} IS NULL",
    EpisodeState.RUNNING: f"NOT {WAITS}",
    EpisodeState.WAITING: WAITS,
}
# Expression, its type, and its text in a page token.
ORDERS = {
    SearchOrder.NEWEST: ("f.create_time", "timestamptz"),
    SearchOrder.COST: ("f.cost", "numeric"),
    SearchOrder.DURATION: ("f.duration_ms", "bigint"),
}
WORDS = "to_tsvector('simple', f.task) @@ websearch_to_tsquery('simple', :words)"
# Conditions of the fields that are set, by field.
CONDITIONS = {
    "labels": "f.labels @> CAST(:labels AS jsonb)",
    "policies": "f.policy = ANY(:policies)",
    "models": "f.model = ANY(:models)",
    "subjects": "f.subject = ANY(:subjects)",
    "teams": "f.teams && CAST(:teams AS text[])",
    "group_id": "f.group_id = :group_id",
    "task_id": "f.task_id = :task_id",
    "parent_id": "f.parent_id = CAST(:parent_id AS uuid)",
    "start_time": "f.create_time >= :start_time",
    "end_time": "f.create_time < :end_time",
}
# Of what is known once an episode has ended.
END_CONDITIONS = {
    "stop_reasons": "f.stop_reason = ANY(:stop_reasons)",
    "tool_names": "f.tools && CAST(:tool_names AS text[])",
    "failure_kinds": "f.failure_kinds && CAST(:failure_kinds AS integer[])",
    "min_cost": "f.cost >= :min_cost",
    "max_cost": "f.cost <= :max_cost",
    "min_duration_ms": "f.duration_ms >= :min_duration_ms",
    "max_duration_ms": "f.duration_ms <= :max_duration_ms",
    "min_score": "f.score >= :min_score",
    "max_score": "f.score <= :max_score",
    "unpriced": "f.unpriced",
    "training_consent": "f.training_consent",
}
FACETS = {
    "stop_reasons": "stop_reason",
    "policies": "policy",
    "models": "model",
    "subjects": "subject",
    "tool_names": "unnest(tools)",
    "failure_kinds": "unnest(failure_kinds)::text",
}
LIMIT_TIME = text(f"SET LOCAL statement_timeout = '{SEARCH_TIMEOUT_S}s'")
# The index of words reads all of a word's episodes before it returns the first.
IS_COMMON = text(
    f"""
    SELECT CASE WHEN (
        SELECT count(*) >= {COMMON_IN_SAMPLE} FROM (
            SELECT task FROM episode_facts f WHERE f.tenant = :tenant AND {ENDED}
            ORDER BY f.create_time DESC, f.id DESC LIMIT {SAMPLED}
        ) f WHERE {WORDS}
    ) THEN true ELSE (
        SELECT count(*) > {RARE_MAX} FROM (
            SELECT FROM episode_facts f WHERE f.tenant = :tenant AND {ENDED} AND {WORDS}
            LIMIT {RARE_MAX + 1}
        ) counted
    ) END
    """  # noqa: S608 all of it is constant
)
# A page ends before it gets larger, but holds one episode at least.
OF_IDS = text(
    f"""
    SELECT * FROM (
        SELECT found.*, place, sum(octet_length(spec) + COALESCE(octet_length(answer), 0))
            OVER (ORDER BY place) AS page_bytes
        FROM ({WITHOUT_TOOLSET} WHERE e.id = ANY(CAST(:ids AS uuid[]))) found
        JOIN unnest(CAST(:ids AS uuid[])) WITH ORDINALITY AS wanted (wanted_id, place)
            ON wanted_id = found.id
    ) page WHERE place = 1 OR page_bytes <= :page_bytes ORDER BY place
    """  # noqa: S608 all of it is constant
)


class EpisodeSearch:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def find(
        self,
        tenant: str,
        wanted: EpisodeFilter,
        order: SearchOrder,
        after: PagePosition | None,
        size: int,
    ) -> EpisodePage:
        """Raises SearchTooSlow; InvalidPageToken for a position that is none of the order."""
        values = {**_values(tenant, wanted), "limit": size + 1}
        expression, kind = ORDERS[order]
        beyond = ""
        if after is not None:
            values |= {"after_value": _position_value(order, after), "after_id": after.id}
            beyond = (
                f" AND ({expression}, f.id) <"
                f" (CAST(:after_value AS {kind}), CAST(:after_id AS uuid))"
            )
        async with self._bounded() as connection:
            source = await _source(connection, values, wanted)
            branches = [
                f"(SELECT f.*, {expression} AS position FROM {source} WHERE {conditions}{beyond}"  # noqa: S608
                f" ORDER BY {expression} DESC, f.id DESC LIMIT :limit)"
                for conditions in _branches(wanted, order)
            ]
            if not branches:
                return EpisodePage([], None)
            merged = f"SELECT * FROM ({' UNION ALL '.join(branches)}) merged"  # noqa: S608
            ordered = text(f"{merged} ORDER BY position DESC, id DESC LIMIT :limit")
            rows = (await connection.execute(ordered, values)).all()
            shown = {str(row.id): row for row in rows[:size]}
            of_ids = {"ids": list(shown), "page_bytes": PAGE_BYTES_MAX}
            episodes = (await connection.execute(OF_IDS, of_ids)).all()
        found = [_found(episode, shown[str(episode.id)]) for episode in episodes]
        more = len(rows) > len(found) > 0
        last = found[-1].stored.new.episode_id if more else ""
        return EpisodePage(found, _position(shown[last]) if more else None)

    async def count(
        self, tenant: str, wanted: EpisodeFilter, bucket: timedelta | None
    ) -> EpisodeCounts:
        """Raises SearchTooSlow."""
        values = _values(tenant, wanted)
        async with self._bounded() as connection:
            source = await _source(connection, values, wanted)
            branches = _branches(wanted, SearchOrder.NEWEST)
            if not branches:
                return EpisodeCounts(0, [])
            counted = " UNION ALL ".join(
                f"(SELECT FROM {source} WHERE {each} LIMIT {COUNTED_MAX + 1})" for each in branches
            )
            count = text(f"SELECT least(count(*), {COUNTED_MAX + 1}) FROM ({counted}) counted")  # noqa: S608
            total = (await connection.execute(count, values)).scalar_one()
            facets = await _facets(connection, values, source, branches)
            series = await _series(connection, values, source, branches, bucket)
        return EpisodeCounts(total, facets, *series)

    @asynccontextmanager
    async def _bounded(self) -> AsyncIterator[AsyncConnection]:
        """A transaction whose statements end after SEARCH_TIMEOUT_S. Raises SearchTooSlow."""
        async with transaction(self._engine) as connection:
            await connection.execute(LIMIT_TIME)
            try:
                yield connection
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) == QUERY_CANCELED:
                    raise SearchTooSlow(SEARCH_TIMEOUT_S) from error
                raise


async def _source(
    connection: AsyncConnection, values: dict[str, Any], wanted: EpisodeFilter
) -> str:
    """Returns the FROM item of ended and running facts.

    For a rare word an index leads to all episodes with it; for a common one it would read
    most of the table, where the newest episodes are read faster one by one.
    """
    if wanted.words and not (await connection.execute(IS_COMMON, values)).scalar():
        rare = f"SELECT * FROM episode_facts f WHERE f.tenant = :tenant AND {WORDS} AND"  # noqa: S608
        return f"(({rare} {ENDED} OFFSET 0) UNION ALL ({rare} {RUNNING})) f"
    return "episode_facts f"


def _branches(wanted: EpisodeFilter, order: SearchOrder) -> list[str]:
    """Returns the conditions of the running and of the ended episodes that are wanted."""
    common = ["f.tenant = :tenant", *(CONDITIONS[name] for name in _set(wanted, CONDITIONS))]
    if wanted.words:
        common.append(WORDS)
    ends = [END_CONDITIONS[name] for name in _set(wanted, END_CONDITIONS)]
    states = wanted.states or tuple(EpisodeState)
    found = []
    if EpisodeState.FINISHED in states:
        found.append(" AND ".join([*common, ENDED, *ends]))
    running = [condition for state, condition in RUNNING_STATES.items() if state in states]
    if running and not ends and order is SearchOrder.NEWEST:
        of_state = ""
        if len(running) < len(RUNNING_STATES):
            of_state = (
                f" AND f.id IN (SELECT id FROM ({WITHOUT_TOOLSET} WHERE e.tenant = :tenant"  # noqa: S608
                f" AND e.stop_reason IS NULL AND ({' OR '.join(running)})) running)"
            )
        found.append(" AND ".join([*common, RUNNING]) + of_state)
    return found


def _set(wanted: EpisodeFilter, names: Iterable[str]) -> list[str]:
    """Returns the names of fields that restrict; a bound of 0 does."""
    values = vars(wanted)
    return [
        name
        for name in names
        if values[name] is not None
        and values[name] is not False
        and values[name] not in ("", (), [], {})
    ]


def _values(tenant: str, wanted: EpisodeFilter) -> dict[str, Any]:
    values = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in vars(wanted).items()
    }
    return {**values, "labels": json.dumps(wanted.labels), "tenant": tenant}


async def _facets(
    connection: AsyncConnection, values: dict[str, Any], source: str, branches: Sequence[str]
) -> list[FacetCount]:
    ended = [each for each in branches if ENDED in each]
    if not ended:
        return []
    sampled = (
        f"SELECT f.* FROM {source} WHERE {ended[0]}"  # noqa: S608
        f" ORDER BY f.create_time DESC LIMIT {FACETS_OF}"
    )
    counted = " UNION ALL ".join(
        f"(SELECT '{name}' AS field, {value} AS value, count(*) AS episodes FROM sampled"  # noqa: S608
        f" GROUP BY 2 ORDER BY 3 DESC, 2 LIMIT {VALUES_MAX})"
        for name, value in FACETS.items()
    )
    statement = text(f"WITH sampled AS MATERIALIZED ({sampled}) {counted}")
    rows = await connection.execute(statement, values)
    return [FacetCount(row.field, row.value, row.episodes) for row in rows]


async def _series(
    connection: AsyncConnection,
    values: dict[str, Any],
    source: str,
    branches: Sequence[str],
    bucket: timedelta | None,
) -> tuple[list[BucketCount], datetime | None]:
    """Returns the buckets, and their beginning where older episodes are not counted."""
    if bucket is None:
        return [], None
    newest = " UNION ALL ".join(
        f"(SELECT f.create_time, f.stop_reason, f.cost, f.currency FROM {source} WHERE {each}"  # noqa: S608
        f" ORDER BY f.create_time DESC LIMIT {SERIES_OF + 1})"
        for each in branches
    )
    statement = text(
        f"""
        WITH buckets AS (
            SELECT date_bin(:bucket, create_time, 'epoch') AS start_time, stop_reason, currency,
                   count(*) AS episodes, sum(cost) AS cost, min(create_time) AS first,
                   dense_rank() OVER (ORDER BY date_bin(:bucket, create_time, 'epoch') DESC)
                       AS place
            FROM (
                SELECT * FROM ({newest}) newest ORDER BY create_time DESC LIMIT {SERIES_OF + 1}
            ) newest GROUP BY 1, 2, 3
        )
        SELECT *, sum(episodes) OVER () AS counted, min(first) OVER () AS beginning FROM buckets
        ORDER BY start_time, stop_reason, currency
        """  # noqa: S608
    )
    rows = (await connection.execute(statement, {**values, "bucket": bucket})).all()
    cut = bool(rows) and rows[0].counted > SERIES_OF
    series = [
        BucketCount(
            row.start_time,
            row.stop_reason and StopReason(row.stop_reason),
            row.episodes,
            money_of(row.cost, row.currency),
        )
        for row in rows
        if row.place <= BUCKETS_MAX
    ]
    return series, rows[0].beginning if cut else None


def _found(episode: Any, facts: Any) -> FoundEpisode:
    parent = None if facts.parent_id is None else str(facts.parent_id)
    return FoundEpisode(
        episode_of(episode),
        EpisodeExcerpt(facts.task, facts.model, parent),
        EpisodeFacts(frozenset(facts.tools), frozenset(facts.failure_kinds), facts.score),
    )


def _position(row: Any) -> PagePosition:
    value = row.position
    # A small decimal's own text has an exponent.
    text_of = value.isoformat() if isinstance(value, datetime) else f"{value:f}"
    return PagePosition(text_of, str(row.id))


def _position_value(order: SearchOrder, after: PagePosition) -> object:
    """Raises InvalidPageToken for what no row can have: a token may be made up."""
    if order is SearchOrder.NEWEST:
        try:
            found = datetime.fromisoformat(after.value)
        except ValueError as error:
            raise InvalidPageToken from error
        if found.tzinfo is None:
            raise InvalidPageToken
        return found
    if not NUMBER.fullmatch(after.value):
        raise InvalidPageToken
    return Decimal(after.value) if order is SearchOrder.COST else int(Decimal(after.value))
