"""Corpora in PostgreSQL. Every change of a corpus raises its version."""

from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from tool_adapters.corpus.models import (
    SHARED_OWNER,
    CorpusKey,
    CorpusSummary,
    Document,
    Passage,
)
from tool_adapters.corpus.passages import passages_of

LOCK_CORPUS = text("SELECT version FROM corpora WHERE owner = :owner AND name = :name FOR UPDATE")
RAISE_VERSION = text(
    "UPDATE corpora SET version = version + 1 WHERE owner = :owner AND name = :name"
)
PUT_DOCUMENT = text(
    """
    INSERT INTO documents (owner, corpus, id, title, uri, digest)
    VALUES (:owner, :name, :id, :title, :uri, :digest)
    ON CONFLICT (owner, corpus, id) DO UPDATE
    SET title = excluded.title, uri = excluded.uri, digest = excluded.digest
    """
)
DELETE_PASSAGES = text(
    "DELETE FROM passages WHERE owner = :owner AND corpus = :name AND document_id = ANY(:ids)"
)
PUT_PASSAGE = text(
    """
    INSERT INTO passages (owner, corpus, document_id, ordinal, content)
    VALUES (:owner, :name, :id, :ordinal, :content)
    """
)
SELECT_PASSAGES = text(
    """
    SELECT p.document_id, d.title, d.uri, p.content
    FROM passages p
    JOIN documents d ON (d.owner, d.corpus, d.id) = (p.owner, p.corpus, p.document_id)
    WHERE p.owner = :owner AND p.corpus = :name
    ORDER BY p.document_id, p.ordinal
    """
)
LIST_CORPORA = text(
    """
    SELECT c.owner, c.name,
        (SELECT count(*) FROM documents d WHERE (d.owner, d.corpus) = (c.owner, c.name)),
        (SELECT count(*) FROM passages p WHERE (p.owner, p.corpus) = (c.owner, c.name))
    FROM corpora c
    WHERE c.owner IN (:tenant, :shared) AND (c.name, c.owner) > (:after_name, :after_owner)
    ORDER BY c.name, c.owner
    LIMIT :limit
    """
)


class PostgresCorpusStore:
    """Documents and passages of every owner."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def put(self, key: CorpusKey, documents: Sequence[Document]) -> tuple[int, int]:
        """Stores documents; returns how many changed and the passages in the corpus now."""
        async with self._engine.begin() as connection:
            await self._make_corpus(connection, key)
            changed = await self._changed(connection, key, documents)
            if changed:
                await self._write(connection, key, changed)
                await connection.execute(RAISE_VERSION, _names(key))
            return len(changed), await self._passage_count(connection, key)

    async def delete(self, key: CorpusKey, ids: Sequence[str]) -> int:
        """Deletes documents with their passages; returns how many were there."""
        async with self._engine.begin() as connection:
            await connection.execute(LOCK_CORPUS, _names(key))
            result = await connection.execute(
                text(
                    "DELETE FROM documents "
                    "WHERE owner = :owner AND corpus = :name AND id = ANY(:ids)"
                ),
                {**_names(key), "ids": list(ids)},
            )
            if result.rowcount:
                await connection.execute(RAISE_VERSION, _names(key))
            return result.rowcount

    async def version(self, key: CorpusKey) -> int | None:
        """The version of a corpus; None when it does not exist."""
        async with self._engine.connect() as connection:
            return await self._version(connection, key)

    async def passages(self, key: CorpusKey) -> tuple[int, list[Passage]]:
        """All passages of a corpus and the version they are of."""
        async with self._engine.connect() as connection:
            # Version and passages must be of one snapshot, or a cache keeps a wrong pair.
            await connection.execution_options(isolation_level="REPEATABLE READ")
            version = await self._version(connection, key)
            rows = await connection.execute(SELECT_PASSAGES, _names(key))
            return version or 0, [Passage(*row) for row in rows]

    async def list_for(
        self, tenant: str, after: tuple[str, str], limit: int
    ) -> list[CorpusSummary]:
        """Corpora a tenant can search, by name and owner, after the given pair."""
        async with self._engine.connect() as connection:
            rows = await connection.execute(
                LIST_CORPORA,
                {
                    "tenant": tenant,
                    "shared": SHARED_OWNER,
                    "after_name": after[0],
                    "after_owner": after[1],
                    "limit": limit,
                },
            )
            return [CorpusSummary(CorpusKey(row[0], row[1]), row[2], row[3]) for row in rows]

    async def _make_corpus(self, connection: AsyncConnection, key: CorpusKey) -> None:
        await connection.execute(
            text("INSERT INTO corpora (owner, name) VALUES (:owner, :name) ON CONFLICT DO NOTHING"),
            _names(key),
        )
        await connection.execute(LOCK_CORPUS, _names(key))

    async def _changed(
        self, connection: AsyncConnection, key: CorpusKey, documents: Sequence[Document]
    ) -> list[Document]:
        rows = await connection.execute(
            text(
                "SELECT id, digest FROM documents "
                "WHERE owner = :owner AND corpus = :name AND id = ANY(:ids)"
            ),
            {**_names(key), "ids": [document.id for document in documents]},
        )
        stored = {row[0]: row[1] for row in rows}
        return [each for each in documents if stored.get(each.id) != each.digest]

    async def _write(
        self, connection: AsyncConnection, key: CorpusKey, documents: Sequence[Document]
    ) -> None:
        names = _names(key)
        for each in documents:
            row = {"id": each.id, "title": each.title, "uri": each.uri, "digest": each.digest}
            await connection.execute(PUT_DOCUMENT, names | row)
        ids = [document.id for document in documents]
        await connection.execute(DELETE_PASSAGES, {**names, "ids": ids})
        rows = [
            names | {"id": each.id, "ordinal": ordinal, "content": content}
            for each in documents
            for ordinal, content in enumerate(passages_of(each))
        ]
        if rows:
            await connection.execute(PUT_PASSAGE, rows)

    async def _version(self, connection: AsyncConnection, key: CorpusKey) -> int | None:
        found = await connection.execute(
            text("SELECT version FROM corpora WHERE owner = :owner AND name = :name"), _names(key)
        )
        version: int | None = found.scalar_one_or_none()
        return version

    async def _passage_count(self, connection: AsyncConnection, key: CorpusKey) -> int:
        found = await connection.execute(
            text("SELECT count(*) FROM passages WHERE owner = :owner AND corpus = :name"),
            _names(key),
        )
        return int(found.scalar_one())


def _names(key: CorpusKey) -> dict[str, object]:
    return {"owner": key.owner, "name": key.name}
