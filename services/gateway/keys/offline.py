"""Keys and the audit log without the gateway, for commands that have its database.

Imports little: `podium up` waits for it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.audit.service import AuditLog
from gateway.audit.store import PostgresAuditStore
from gateway.config import MIGRATIONS, DatabaseSettings
from gateway.keys.service import ApiKeys
from gateway.keys.store import PostgresApiKeyStore
from podium_kit.postgres import migrations
from podium_kit.postgres.engine import open_engine


@asynccontextmanager
async def api_keys(settings: DatabaseSettings) -> AsyncIterator[ApiKeys]:
    """The keys alone, for the command that creates the first one."""
    async with keys_and_log(settings) as (keys, _):
        yield keys


@asynccontextmanager
async def keys_and_log(settings: DatabaseSettings) -> AsyncIterator[tuple[ApiKeys, AuditLog]]:
    await migrations.upgrade(settings.database_url, MIGRATIONS)
    engine = open_engine(settings.database_url)
    try:
        log = AuditLog(PostgresAuditStore(engine))
        yield ApiKeys(PostgresApiKeyStore(engine), log, cache_s=0), log
    finally:
        await engine.dispose()
