"""A workspace is a list of digests; a tenant's pieces are stored once by their digest."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import uuid4

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from podium_kit.postgres.engine import DatabaseUnavailable, autocommit, transaction
from tool_adapters.workspaces.models import Quotas, Saved, Whose, WorkspaceDamaged, WorkspaceFull
from tool_adapters.workspaces.pieces import pieces

# A database that stalls is away: the call is made again, and the model does not notice.
ANSWER_TIMEOUT_S = 10.0
FORGOTTEN_AT_ONCE = 100
LOAD = text(
    """
    SELECT w.revision, b.digest, b.content FROM workspaces w
    LEFT JOIN workspace_pieces p USING (tenant, episode_id)
    LEFT JOIN workspace_blobs b USING (tenant, digest)
    WHERE w.tenant = :tenant AND w.episode_id = :episode_id ORDER BY p.ordinal
    """
)
# Makes sums true and keeps a piece from going while another workspace begins to need it.
LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('workspaces/' || :tenant, 0))")
BEGIN = text(
    """
    INSERT INTO workspaces (tenant, episode_id, revision) VALUES (:tenant, :episode_id, :revision)
    ON CONFLICT (tenant, episode_id) DO NOTHING
    """
)
REPLACE = text(
    """
    UPDATE workspaces SET revision = :revision, save_time = clock_timestamp()
    WHERE tenant = :tenant AND episode_id = :episode_id AND revision = :replaced
    """
)
EXISTS = text("SELECT 1 FROM workspaces WHERE tenant = :tenant AND episode_id = :episode_id")
SIZE = text(
    "SELECT coalesce(sum(octet_length(content)), 0) FROM workspace_blobs WHERE tenant = :tenant"
)
KNOWN = text(
    """
    SELECT digest FROM workspace_blobs
    WHERE tenant = :tenant AND digest = ANY(CAST(:digests AS bytea[]))
    """
)
PUT_BLOB = text(
    "INSERT INTO workspace_blobs (tenant, digest, content) VALUES (:tenant, :digest, :content)"
)
PUT_PIECES = text(
    """
    INSERT INTO workspace_pieces (tenant, episode_id, ordinal, digest)
    SELECT :tenant, :episode_id, ordinal, digest
    FROM unnest(CAST(:digests AS bytea[])) WITH ORDINALITY AS given (digest, ordinal)
    """
)
TAKE_PIECES = text(
    """
    DELETE FROM workspace_pieces WHERE tenant = :tenant AND episode_id = :episode_id
    RETURNING digest
    """
)
DELETE_UNUSED = text(
    """
    DELETE FROM workspace_blobs b
    WHERE b.tenant = :tenant AND b.digest = ANY(CAST(:digests AS bytea[])) AND NOT EXISTS (
        SELECT FROM workspace_pieces p WHERE p.tenant = b.tenant AND p.digest = b.digest)
    """
)
DELETE = text(
    """
    DELETE FROM workspaces WHERE tenant = :tenant AND episode_id = :episode_id
        AND save_time <= clock_timestamp() - CAST(:age AS interval)
    """
)
OLD = text(
    """
    SELECT tenant, episode_id FROM workspaces
    WHERE save_time < clock_timestamp() - CAST(:age AS interval) LIMIT :limit
    """
)


class PostgresWorkspaces:
    """A save is one transaction, so a process that is killed leaves what was saved before."""

    def __init__(self, engine: AsyncEngine, quotas: Quotas) -> None:
        self._engine = engine
        self._quotas = quotas

    async def load(self, whose: Whose) -> Saved:
        async with _answering(), autocommit(self._engine) as connection:
            rows = (await connection.execute(LOAD, _names(whose))).all()
        if not rows:
            return Saved()
        parts = [(row.digest, row.content) for row in rows if row.digest is not None]
        await asyncio.to_thread(_require_whole, parts)
        return Saved(rows[0].revision, b"".join(content for _, content in parts))

    async def save(self, whose: Whose, replaced: str, packed: bytes) -> bool:
        """Returns whether no one had replaced that revision. Raises WorkspaceFull,
        DatabaseUnavailable.
        """
        most = self._quotas.workspace_bytes
        if len(packed) > most:
            fix = "delete files and variables that are not needed"
            raise WorkspaceFull("the episode", len(packed), most, fix)
        parts = await asyncio.to_thread(_by_digest, packed)
        async with _answering(), transaction(self._engine) as connection:
            await connection.execute(LOCK, {"tenant": whose.tenant})
            if not await _take(connection, whose, replaced):
                # A workspace that is gone was closed with its episode: nothing will ask for it.
                found = await connection.execute(EXISTS, _names(whose))
                return bool(replaced) and found.one_or_none() is None
            before = await _size(connection, whose)
            await _put(connection, whose, parts)
            self._require_room(before, await _size(connection, whose))
        return True

    async def delete(self, whose: Whose) -> None:
        async with autocommit(self._engine) as connection:
            if (await connection.execute(EXISTS, _names(whose))).one_or_none() is None:
                return
        await self._delete(whose, timedelta())

    async def forget_older_than(self, age: timedelta) -> None:
        while True:
            async with autocommit(self._engine) as connection:
                values = {"age": age, "limit": FORGOTTEN_AT_ONCE}
                old = (await connection.execute(OLD, values)).all()
            for row in old:
                await self._delete(Whose(row.tenant, row.episode_id), age)
            if len(old) < FORGOTTEN_AT_ONCE:
                return

    async def _delete(self, whose: Whose, age: timedelta) -> None:
        async with transaction(self._engine) as connection:
            await connection.execute(LOCK, {"tenant": whose.tenant})
            held = (await connection.execute(TAKE_PIECES, _names(whose))).scalars().all()
            deleted = await connection.execute(DELETE, {**_names(whose), "age": age})
            if not deleted.rowcount:
                # Saved a moment ago.
                await connection.rollback()
                return
            await _delete_unused(connection, whose, set(held))

    def _require_room(self, before: int, after: int) -> None:
        """Checks the quota; above a lowered one, a workspace may still shrink."""
        most = self._quotas.tenant_bytes
        if most < after and before < after:
            fix = "delete files and variables here, or let other episodes with code end first"
            raise WorkspaceFull("all episodes of the tenant together", after, most, fix)


async def _take(connection: AsyncConnection, whose: Whose, replaced: str) -> bool:
    values = {**_names(whose), "revision": uuid4().hex}
    if replaced:
        taken = await connection.execute(REPLACE, {**values, "replaced": replaced})
    else:
        taken = await connection.execute(BEGIN, values)
    return bool(taken.rowcount)


async def _put(connection: AsyncConnection, whose: Whose, parts: list[tuple[bytes, bytes]]) -> None:
    former = (await connection.execute(TAKE_PIECES, _names(whose))).scalars().all()
    digests = [digest for digest, _ in parts]
    contents = dict(parts)
    known = await connection.execute(KNOWN, {"tenant": whose.tenant, "digests": digests})
    missing = contents.keys() - set(known.scalars())
    if missing:
        rows = [
            {"tenant": whose.tenant, "digest": digest, "content": contents[digest]}
            for digest in missing
        ]
        await connection.execute(PUT_BLOB, rows)
    await connection.execute(PUT_PIECES, {**_names(whose), "digests": digests})
    await _delete_unused(connection, whose, set(former) - contents.keys())


async def _delete_unused(connection: AsyncConnection, whose: Whose, digests: set[bytes]) -> None:
    values = {"tenant": whose.tenant, "digests": list(digests)}
    await connection.execute(DELETE_UNUSED, values)


async def _size(connection: AsyncConnection, whose: Whose) -> int:
    return int((await connection.execute(SIZE, {"tenant": whose.tenant})).scalar_one())


@asynccontextmanager
async def _answering() -> AsyncIterator[None]:
    """Raises DatabaseUnavailable when it takes too long."""
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            yield
    except TimeoutError as error:
        raise DatabaseUnavailable from error


def _by_digest(packed: bytes) -> list[tuple[bytes, bytes]]:
    return [(hashlib.sha256(piece).digest(), piece) for piece in pieces(packed)]


def _require_whole(parts: list[tuple[bytes, bytes]]) -> None:
    for digest, content in parts:
        if hashlib.sha256(content).digest() != digest:
            raise WorkspaceDamaged(digest)


def _names(whose: Whose) -> dict[str, str]:
    return {"tenant": whose.tenant, "episode_id": whose.episode_id}
