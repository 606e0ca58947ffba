from datetime import datetime
from typing import Any

from sqlalchemy import Column, DateTime, LargeBinary, MetaData, Row, Table, Text, or_, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncEngine

from gateway.sessions.models import IDLE_MAX, ConsoleSession
from podium_kit.postgres.engine import autocommit, transaction
from podium_kit.rpc.identity import Identity

SESSIONS = Table(
    "console_sessions",
    MetaData(),
    Column("digest", LargeBinary, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("credential", Text, nullable=False),
    Column("key_id", Text),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("groups", ARRAY(Text), nullable=False),
    Column("create_time", DateTime(timezone=True), nullable=False),
    Column("last_used_time", DateTime(timezone=True), nullable=False),
    Column("expire_time", DateTime(timezone=True), nullable=False),
)
COLUMNS = SESSIONS.c
# Of one person; the oldest one ends where another begins.
SESSIONS_MAX = 20


class PostgresSessionStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def insert(self, session: ConsoleSession) -> None:
        """Stores a session, and ends the oldest of the person's that are too many."""
        who = session.identity
        mine = (COLUMNS.tenant == who.tenant) & (COLUMNS.subject == who.subject)
        newest_first = select(COLUMNS.digest).where(mine).order_by(COLUMNS.create_time.desc())
        surplus = COLUMNS.digest.in_(newest_first.offset(SESSIONS_MAX))
        async with transaction(self._engine) as connection:
            await connection.execute(SESSIONS.insert().values(_values(session)))
            await connection.execute(SESSIONS.delete().where(surplus))

    async def get(self, digest: bytes) -> ConsoleSession | None:
        query = SESSIONS.select().where(COLUMNS.digest == digest)
        async with autocommit(self._engine) as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else _session(row)

    async def touch(self, digest: bytes, used: datetime) -> None:
        statement = SESSIONS.update().where(COLUMNS.digest == digest).values(last_used_time=used)
        async with autocommit(self._engine) as connection:
            await connection.execute(statement)

    async def delete(self, digest: bytes) -> None:
        async with autocommit(self._engine) as connection:
            await connection.execute(SESSIONS.delete().where(COLUMNS.digest == digest))

    async def forget(self, now: datetime) -> None:
        """Deletes sessions that are over."""
        over = or_(COLUMNS.expire_time <= now, COLUMNS.last_used_time <= now - IDLE_MAX)
        async with autocommit(self._engine) as connection:
            await connection.execute(SESSIONS.delete().where(over))


def _values(session: ConsoleSession) -> dict[str, Any]:
    who = session.identity
    sets = {"scopes": sorted(who.scopes), "groups": sorted(who.groups)}
    values = {name: value for name, value in vars(session).items() if name != "identity"}
    return values | sets | {"tenant": who.tenant, "subject": who.subject}


def _session(row: Row[Any]) -> ConsoleSession:
    values = dict(row._mapping)
    tenant, subject = values.pop("tenant"), values.pop("subject")
    scopes, groups = frozenset(values.pop("scopes")), frozenset(values.pop("groups"))
    return ConsoleSession(identity=Identity(tenant, subject, scopes, groups), **values)
