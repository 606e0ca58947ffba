"""Rows of roots and leaves are added and never changed."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from cost_ledger.audit.models import Anchor, AnchoredHead, Head
from cost_ledger.store_engine import tenant_transaction
from podium_kit.anchors import DailyRoot, TenantHead
from podium_kit.postgres.engine import autocommit

COLUMNS = "a.day, a.root, a.tenant_count, a.previous_root, a.signature, a.public_key, a.create_time"
LAST = text(f"SELECT {COLUMNS} FROM anchor a ORDER BY a.day DESC LIMIT 1")  # noqa: S608  a constant
PAGE = text(f"""
    SELECT {COLUMNS} FROM anchor a
    WHERE a.day > CAST(:after AS date) ORDER BY a.day LIMIT :limit
""")  # noqa: S608  the columns are the constant above
HEADS = text("SELECT tenant, anchored, sequence, hash FROM heads_to_anchor()")
# The last entry before a moment, or the one that the last root reached.
END_BEFORE = text("""
    SELECT sequence, hash FROM entry
    WHERE tenant = :tenant AND sequence >= :anchored AND create_time < :before
    ORDER BY sequence DESC LIMIT 1
""")
HASHES = text("""
    SELECT hash FROM entry
    WHERE tenant = :tenant AND sequence BETWEEN :first AND :last ORDER BY sequence
""")
ADD = text("""
    INSERT INTO anchor (day, root, tenant_count, previous_root, signature, public_key, create_time)
    VALUES (:day, :root, :tenant_count, :previous_root, :signature, :public_key, :create_time)
    ON CONFLICT (day) DO NOTHING RETURNING day
""")
ADD_HEAD = text("""
    INSERT INTO anchor_head (day, tenant, tenant_index, first_sequence, last_sequence, head_hash,
                             entries_root, tenant_path)
    VALUES (:day, :tenant, :tenant_index, :first_sequence, :last_sequence, :head_hash,
            :entries_root, :tenant_path)
""")
ANCHORED_HEAD = f"""
    SELECT {COLUMNS}, h.tenant, h.tenant_index, h.first_sequence, h.last_sequence, h.head_hash,
           h.entries_root, h.tenant_path
    FROM anchor_head h JOIN anchor a USING (day)
    WHERE h.tenant = :tenant
"""  # noqa: S608  the columns are the constant above
COVERING = text(f"""
    {ANCHORED_HEAD} AND h.last_sequence >= :sequence AND h.first_sequence <= :sequence
    ORDER BY a.day LIMIT 1
""")
AFTER = text(f"{ANCHORED_HEAD} AND a.day > :day ORDER BY a.day LIMIT 1")


class AnchorStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def last(self) -> Anchor | None:
        rows = await self._all(LAST)
        return _anchor(rows[0]) if rows else None

    async def page(self, after: str, limit: int) -> list[Anchor]:
        """Roots of the days after `after` (YYYY-MM-DD, "" for all), oldest first."""
        return [_anchor(row) for row in await self._all(PAGE, after=_day(after), limit=limit)]

    async def heads(self, before: datetime) -> list[Head]:
        """Returns the ends of all journals at a moment, in the order of the tenants' names."""
        heads = [await self._head(row, before) for row in await self._all(HEADS)]
        return [head for head in heads if head is not None]

    async def _head(self, row: Any, before: datetime) -> Head | None:
        asked = {"tenant": row.tenant, "anchored": row.anchored, "before": before}
        async with tenant_transaction(self._engine, row.tenant) as connection:
            end = (await connection.execute(END_BEFORE, asked)).first()
        return Head(row.tenant, row.anchored, end.sequence, end.hash) if end else None

    async def hashes(self, tenant: str, first: int, last: int) -> list[bytes]:
        async with tenant_transaction(self._engine, tenant) as connection:
            span = {"tenant": tenant, "first": first, "last": last}
            return [bytes(each) for each in (await connection.execute(HASHES, span)).scalars()]

    async def add(self, anchor: Anchor, heads: Sequence[AnchoredHead]) -> bool:
        """Stores a root and its leaves; False when the day has one already."""
        day = date.fromisoformat(anchor.root.day)
        tenants = [each.head.tenant for each in heads]
        async with tenant_transaction(self._engine, *tenants) as connection:
            if not (await connection.execute(ADD, _anchor_row(anchor))).first():
                return False
            await connection.execute(ADD_HEAD, [_head_row(day, each) for each in heads])
            return True

    async def covering(self, tenant: str, sequence: int) -> tuple[Anchor, AnchoredHead] | None:
        return await self._one(COVERING, tenant, sequence=sequence)

    async def after(self, tenant: str, day: str) -> tuple[Anchor, AnchoredHead] | None:
        """The first root after a day ("" for the very first), and the tenant's leaf under it."""
        return await self._one(AFTER, tenant, day=_day(day))

    async def _one(
        self, statement: Any, tenant: str, **values: object
    ) -> tuple[Anchor, AnchoredHead] | None:
        async with tenant_transaction(self._engine, tenant) as connection:
            row = (await connection.execute(statement, {"tenant": tenant, **values})).first()
        return (_anchor(row), _anchored_head(row)) if row else None

    async def _all(self, statement: Any, **values: object) -> Sequence[Any]:
        async with autocommit(self._engine) as connection:
            return (await connection.execute(statement, values)).all()


def _day(text_or_empty: str) -> date:
    return date.fromisoformat(text_or_empty) if text_or_empty else date.min


def _anchor(row: Any) -> Anchor:
    root = DailyRoot(
        row.day.isoformat(), bytes(row.root), row.tenant_count, bytes(row.previous_root)
    )
    return Anchor(root, bytes(row.signature), row.public_key, row.create_time)


def _anchor_row(anchor: Anchor) -> dict[str, Any]:
    root = anchor.root
    return {
        "day": date.fromisoformat(root.day),
        "root": root.root,
        "tenant_count": root.tenant_count,
        "previous_root": root.previous_root,
        "signature": anchor.signature,
        "public_key": anchor.public_key,
        "create_time": anchor.create_time,
    }


def _anchored_head(row: Any) -> AnchoredHead:
    head = TenantHead(
        row.tenant,
        row.first_sequence,
        row.last_sequence,
        bytes(row.head_hash),
        bytes(row.entries_root),
    )
    return AnchoredHead(head, row.tenant_index, tuple(bytes(each) for each in row.tenant_path))


def _head_row(day: date, anchored: AnchoredHead) -> dict[str, Any]:
    head = anchored.head
    return {
        "day": day,
        "tenant": head.tenant,
        "tenant_index": anchored.tenant_index,
        "first_sequence": head.first_sequence,
        "last_sequence": head.last_sequence,
        "head_hash": head.head_hash,
        "entries_root": head.entries_root,
        "tenant_path": list(anchored.tenant_path),
    }
