"""Every change of a corpus raises its version."""

from collections.abc import Mapping, Sequence

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from podium_kit.postgres.engine import transaction
from tool_adapters.corpus.errors import CorpusFull
from tool_adapters.corpus.models import (
    SHARED_OWNER,
    CorpusKey,
    CorpusSummary,
    Document,
    DocumentSummary,
    Passage,
    Piece,
)

CORPORA_PER_OWNER_MAX = 100
DOCUMENTS_PER_CORPUS_MAX = 10_000
PASSAGES_PER_CORPUS_MAX = 100_000
BYTES_PER_TENANT = 256 * 1024**2

# Changes of one owner's corpora wait for each other, so that what they count is true.
LOCK_OWNER = text("SELECT pg_advisory_xact_lock(hashtextextended('corpora/' || :owner, 0))")
COUNT_BYTES = text(
    """
    UPDATE corpora SET bytes = (
        SELECT coalesce(
            sum(octet_length(content) + octet_length(section) + octet_length(vector)), 0
        ) FROM passages WHERE owner = :owner AND corpus = :name
    ) WHERE owner = :owner AND name = :name
    """
)

LOCK_CORPUS = text("SELECT version FROM corpora WHERE owner = :owner AND name = :name FOR UPDATE")
RAISE_VERSION = text(
    "UPDATE corpora SET version = version + 1 WHERE owner = :owner AND name = :name"
)
PUT_DOCUMENT = text(
    """
    INSERT INTO documents (owner, corpus, id, title, uri, media_type, digest, embedding_model)
    VALUES (:owner, :name, :id, :title, :uri, :media_type, :digest, :embedding_model)
    ON CONFLICT (owner, corpus, id) DO UPDATE
    SET title = excluded.title, uri = excluded.uri, media_type = excluded.media_type,
        digest = excluded.digest, embedding_model = excluded.embedding_model
    """
)
DELETE_PASSAGES = text(
    "DELETE FROM passages WHERE owner = :owner AND corpus = :name AND document_id = ANY(:ids)"
)
PUT_PASSAGE = text(
    """
    INSERT INTO passages (
        owner, corpus, document_id, ordinal, content, section, page, first, after, vector
    )
    VALUES (
        :owner, :name, :id, :ordinal, :content, :section, :page, :first, :after, :vector
    )
    """
)
SELECT_PASSAGES = text(
    """
    SELECT p.document_id, d.title, d.uri, p.vector,
        p.content, p.section, p.page, p.first, p.after
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
LIST_DOCUMENTS = text(
    """
    SELECT d.id, d.title, d.uri, d.media_type,
        (SELECT count(*) FROM passages p
         WHERE (p.owner, p.corpus, p.document_id) = (d.owner, d.corpus, d.id))
    FROM documents d
    WHERE d.owner = :owner AND d.corpus = :name AND d.id > :after
    ORDER BY d.id
    LIMIT :limit
    """
)
COUNTS = text(
    """
    SELECT (SELECT count(*) FROM corpora WHERE owner = :owner),
        (SELECT count(*) FROM documents WHERE owner = :owner AND corpus = :name),
        (SELECT count(*) FROM passages WHERE owner = :owner AND corpus = :name),
        (SELECT coalesce(sum(bytes), 0) FROM corpora WHERE owner = :owner)
    """
)


class PostgresCorpusStore:
    def __init__(self, engine: AsyncEngine, bytes_per_tenant: int = BYTES_PER_TENANT) -> None:
        self._engine = engine
        self._bytes_per_tenant = bytes_per_tenant

    async def changed(
        self, key: CorpusKey, documents: Sequence[Document], embedding_model: str
    ) -> list[Document]:
        """Returns the documents that are not stored unchanged with vectors of that model ("":
        none).
        """
        async with transaction(self._engine) as connection:
            rows = await connection.execute(
                text(
                    "SELECT id, digest, embedding_model FROM documents "
                    "WHERE owner = :owner AND corpus = :name AND id = ANY(:ids)"
                ),
                {**_names(key), "ids": [document.id for document in documents]},
            )
            stored = {row[0]: (row[1], row[2]) for row in rows}
        return [each for each in documents if stored.get(each.id) != (each.digest, embedding_model)]

    async def put(
        self, key: CorpusKey, cut: Mapping[Document, Sequence[Passage]], embedding_model: str
    ) -> int:
        """Returns the passages in the corpus now. Raises CorpusFull, and stores nothing then."""
        async with transaction(self._engine) as connection:
            await connection.execute(LOCK_OWNER, _names(key))
            await self._make_corpus(connection, key)
            if cut:
                await self._write(connection, key, cut, embedding_model)
                await connection.execute(RAISE_VERSION, _names(key))
                await connection.execute(COUNT_BYTES, _names(key))
            return await self._passage_count(connection, key)

    async def delete(self, key: CorpusKey, ids: Sequence[str]) -> int:
        async with transaction(self._engine) as connection:
            await connection.execute(LOCK_OWNER, _names(key))
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
                await connection.execute(COUNT_BYTES, _names(key))
            return result.rowcount

    async def delete_corpus(self, key: CorpusKey) -> int:
        async with transaction(self._engine) as connection:
            await connection.execute(LOCK_CORPUS, _names(key))
            counts = (await connection.execute(COUNTS, _names(key))).one()
            await connection.execute(
                text("DELETE FROM corpora WHERE owner = :owner AND name = :name"), _names(key)
            )
            return int(counts[1])

    async def documents(self, key: CorpusKey, after: str, limit: int) -> list[DocumentSummary]:
        async with transaction(self._engine) as connection:
            place = {**_names(key), "after": after, "limit": limit}
            rows = await connection.execute(LIST_DOCUMENTS, place)
            return [DocumentSummary(*row) for row in rows]

    async def version(self, key: CorpusKey) -> int | None:
        async with transaction(self._engine) as connection:
            return await self._version(connection, key)

    async def passages(self, key: CorpusKey) -> tuple[int, list[Passage]]:
        # Version and passages must be of one snapshot, or a cache keeps a wrong pair.
        snapshot = self._engine.execution_options(isolation_level="REPEATABLE READ")
        async with transaction(snapshot) as connection:
            version = await self._version(connection, key)
            rows = await connection.execute(SELECT_PASSAGES, _names(key))
            return version or 0, [_passage(row) for row in rows.mappings()]

    async def list_for(
        self, tenant: str, after: tuple[str, str], limit: int
    ) -> list[CorpusSummary]:
        async with transaction(self._engine) as connection:
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

    async def _write(
        self,
        connection: AsyncConnection,
        key: CorpusKey,
        cut: Mapping[Document, Sequence[Passage]],
        embedding_model: str,
    ) -> None:
        names = _names(key)
        documents = [_document_row(each, embedding_model) | names for each in cut]
        await connection.execute(PUT_DOCUMENT, documents)
        ids = [document.id for document in cut]
        await connection.execute(DELETE_PASSAGES, {**names, "ids": ids})
        rows = [
            _passage_row(passage, ordinal) | names
            for passages in cut.values()
            for ordinal, passage in enumerate(passages)
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
        counts = (await connection.execute(COUNTS, _names(key))).one()
        corpora, documents, passages, size = counts
        for count, most, what in (
            (corpora, CORPORA_PER_OWNER_MAX, "corpora"),
            (documents, DOCUMENTS_PER_CORPUS_MAX, f"documents in corpus {key.name!r}"),
            (passages, PASSAGES_PER_CORPUS_MAX, f"passages in corpus {key.name!r}"),
        ):
            if count > most:
                raise CorpusFull(f"more than {most} {what}; remove some, or use another corpus")
        if size > self._bytes_per_tenant and not key.shared:
            raise CorpusFull(
                f"the tenant's corpora would hold {size} bytes of text and vectors, above its quota"
                f" of {self._bytes_per_tenant}; delete documents, or a corpus, or have the operator"
                " raise TOOL_ADAPTERS_CORPORA_BYTES_PER_TENANT"
            )
        return int(passages)


def _document_row(document: Document, embedding_model: str) -> dict[str, object]:
    return {
        "id": document.id,
        "title": document.title,
        "uri": document.uri,
        "media_type": document.media_type.value,
        "digest": document.digest,
        "embedding_model": embedding_model,
    }


def _passage_row(passage: Passage, ordinal: int) -> dict[str, object]:
    piece = passage.piece
    return {
        "id": passage.document_id,
        "ordinal": ordinal,
        "content": piece.content,
        "section": piece.section,
        "page": piece.page,
        "first": piece.start,
        "after": piece.end,
        "vector": passage.vector,
    }


def _passage(row: RowMapping) -> Passage:
    piece = Piece(row["content"], row["section"], row["page"], row["first"], row["after"])
    return Passage(row["document_id"], row["title"], row["uri"], piece, row["vector"])


def _names(key: CorpusKey) -> dict[str, object]:
    return {"owner": key.owner, "name": key.name}
