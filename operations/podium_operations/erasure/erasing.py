import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from podium_kit.anchors import public_pem
from podium_kit.client.errors import UserError
from podium_operations.backups.databases import engine_of
from podium_operations.erasure import statements

PURPOSE = "podium erasure receipt v1"
Counts = dict[str, int]


class EpisodesRun(UserError):
    """Deleting what runs would let it write again."""

    def __init__(self, count: int) -> None:
        super().__init__(
            f"{count} of their episodes have not ended",
            "revoke the keys, cancel the episodes (`podium episodes cancel`), then erase",
        )


@dataclass(frozen=True)
class Whose:
    tenant: str
    subject: str | None


@dataclass(frozen=True)
class Receipt:
    """The rows that were deleted and those that a search still found, by `table.column`."""

    purpose: str
    tenant: str
    subject: str | None
    time: str
    deleted: Counts
    kept: Counts

    def document(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":")).encode()


def signed(receipt: Receipt, key: Ed25519PrivateKey) -> dict[str, str]:
    document = receipt.document()
    return {
        "document": document.decode(),
        "signature": key.sign(document).hex(),
        "public_key": public_pem(key.public_key()),
    }


async def erase(urls: Mapping[str, str], whose: Whose, *, really: bool) -> Receipt:
    """Deletes, or only counts what would be. Raises EpisodesRun, DatabaseUnreachable.

    Each database is one transaction; what an error left undone is done by a repeated call.
    """
    async with AsyncExitStack() as stack:
        engines = {
            name: await stack.enter_async_context(engine_of(url)) for name, url in urls.items()
        }
        values = await _values(engines["episodes"], whose)
        deleted: Counts = {}
        for name, of_both in statements.DELETED.items():
            of_tenant = statements.OF_TENANT[name] if whose.subject is None else {}
            tables = {**of_both, **of_tenant}
            deleted |= await _delete(name, engines[name], tables, values, really=really)
        kept: Counts = {}
        for name, engine in engines.items():
            kept |= await _find(name, engine, whose)
    return Receipt(
        PURPOSE, whose.tenant, whose.subject, datetime.now(UTC).isoformat(), deleted, kept
    )


async def _values(episodes: AsyncEngine, whose: Whose) -> dict[str, Any]:
    values: dict[str, Any] = {"tenant": whose.tenant, "subject": whose.subject}
    async with episodes.connect() as connection:
        running = (await connection.execute(text(statements.UNFINISHED), values)).scalar_one()
        if running:
            raise EpisodesRun(running)
        ids = await connection.execute(text(statements.IDS), values)
        values["episode_ids"] = [str(each) for each in ids.scalars()]
    return values | {"feedback_record": statements.FEEDBACK_RECORD}


async def _delete(
    name: str,
    engine: AsyncEngine,
    tables: Mapping[str, str],
    values: Mapping[str, Any],
    *,
    really: bool,
) -> Counts:
    async with engine.connect() as connection, connection.begin() as transaction:
        if name == "episodes":
            for prepared in (statements.GONE, statements.GONE_RECORDS, statements.GONE_BODIES):
                await _run(connection, prepared, values)
        counts = {
            f"{name}.{table}": await _run(connection, statement, values)
            for table, statement in tables.items()
        }
        if not really:
            await transaction.rollback()
    return {table: count for table, count in counts.items() if count}


async def _run(connection: AsyncConnection, statement: str, values: Mapping[str, Any]) -> int:
    clause = text(statement)
    used = {key: value for key, value in values.items() if f":{key}" in statement}
    return (await connection.execute(clause, used)).rowcount


async def _find(name: str, engine: AsyncEngine, whose: Whose) -> Counts:
    """Rows that still name the tenant or, for a user, the person."""
    names = [*statements.TENANT_COLUMNS, *statements.SUBJECT_COLUMNS]
    found: Counts = {}
    async with engine.connect() as connection:
        rows = (await connection.execute(text(statements.COLUMNS), {"names": names})).all()
        columns: dict[str, set[str]] = {}
        for row in rows:
            columns.setdefault(row.table, set()).add(row.column)
        for table, its in columns.items():
            of_tenant = sorted(its.intersection(statements.TENANT_COLUMNS))
            searched = of_tenant if whose.subject is None else sorted(its - set(of_tenant))
            for column in searched:
                count = await _count(connection, (table, column), of_tenant, whose)
                found |= {f"{name}.{table}.{column}": count} if count else {}
    return found


async def _count(
    connection: AsyncConnection, where: tuple[str, str], of_tenant: list[str], whose: Whose
) -> int:
    quoted = connection.dialect.identifier_preparer.quote_identifier
    table, column = map(quoted, where)
    wanted = whose.tenant if whose.subject is None else whose.subject
    condition = f"{column} IN (:wanted, 'user:' || :wanted)"
    values = {"wanted": wanted}
    if whose.subject is not None and of_tenant:
        condition += f" AND :tenant IN ({', '.join(map(quoted, of_tenant))})"
        values["tenant"] = whose.tenant
    query = text(f"SELECT count(*) FROM {table} WHERE {condition}")  # noqa: S608  names of the catalogue
    return int((await connection.execute(query, values)).scalar_one())
