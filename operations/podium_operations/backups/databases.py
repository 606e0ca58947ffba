import hashlib
import importlib.util
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from asyncpg import PostgresError
from sqlalchemy import text
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from cost_ledger.audit.store import AuditStore
from cost_ledger.audit.store_anchors import AnchorStore
from cost_ledger.audit.store_invariants import InvariantStore
from cost_ledger.audit.verification import Position, Range, Verification
from cost_ledger.prices.service import PriceBook
from cost_ledger.prices.store import PriceDeletion, PriceStore
from podium_kit.client.errors import UsageError, UserError
from podium_kit.postgres.migrations import DatabaseUnreachable, newest_revision
from podium_kit.postgres.urls import driver_url
from podium_operations.backups.manifest import DatabaseFacts, LedgerEnd

# By database, the variable that gives its service the URL of the schema's owner.
URL_VARIABLES = {
    "cost_ledger": "COST_LEDGER_OWNER_DATABASE_URL",
    "tool_registry": "TOOL_REGISTRY_DATABASE_URL",
    "tool_adapters": "TOOL_ADAPTERS_DATABASE_URL",
    "episodes": "EPISODES_DATABASE_URL",
    "gateway": "GATEWAY_DATABASE_URL",
}

REVISION = text("SELECT version_num FROM public.alembic_version")
SERVER_VERSION = text("SELECT current_setting('server_version')")
EXTENSIONS = text("SELECT extname FROM pg_extension WHERE extname <> 'plpgsql' ORDER BY 1")
# Who was granted a table or a function and does not own the database's schema.
ROLES = text("""
    SELECT DISTINCT a.grantee::regrole::text FROM (
        SELECT relacl AS acl, relowner AS owner FROM pg_class WHERE relacl IS NOT NULL
            AND relnamespace = 'public'::regnamespace
        UNION ALL
        SELECT proacl, proowner FROM pg_proc WHERE proacl IS NOT NULL
            AND pronamespace = 'public'::regnamespace
    ) o CROSS JOIN LATERAL aclexplode(o.acl) a
    WHERE a.grantee <> 0 AND a.grantee <> o.owner ORDER BY 1
""")
TABLES = text("""
    SELECT count(*) FROM pg_class
    WHERE relnamespace = to_regnamespace('public') AND relkind IN ('r', 'p')
""")
SESSIONS = text("""
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND usesysid IS NOT NULL
""")


class NoTables(UserError):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"the database {name} has no tables of Podium",
            "start the platform once, or correct the URL",
        )


def urls_of_environment() -> dict[str, str]:
    missing = [name for name in URL_VARIABLES.values() if not os.environ.get(name)]
    if missing:
        raise UsageError(
            f"the environment has no {', '.join(missing)}",
            "set the URL of each service's database, for the ledger that of the schema's owner",
        )
    return {name: os.environ[variable] for name, variable in URL_VARIABLES.items()}


@asynccontextmanager
async def engine_of(url: str) -> AsyncIterator[AsyncEngine]:
    try:
        engine = create_async_engine(driver_url(url), pool_size=2)
    except ArgumentError as error:
        raise UsageError(
            "a database's URL cannot be read",
            "write postgresql://USER:PASSWORD@HOST:5432/DATABASE",
        ) from error
    try:
        try:
            await (await engine.connect()).close()
        except (OSError, PostgresError, SQLAlchemyError) as error:
            raise DatabaseUnreachable(url, error) from error
        yield engine
    finally:
        await engine.dispose()


async def facts_of(name: str, connection: AsyncConnection) -> DatabaseFacts:
    try:
        revision = (await connection.execute(REVISION)).scalar()
    except SQLAlchemyError as error:
        raise NoTables(name) from error
    if not revision:
        raise NoTables(name)
    return DatabaseFacts(
        revision=revision,
        server_version=(await connection.execute(SERVER_VERSION)).scalar_one(),
        extensions=list((await connection.execute(EXTENSIONS)).scalars()),
        roles=list((await connection.execute(ROLES)).scalars()),
    )


async def count_tables(connection: AsyncConnection) -> int:
    return int((await connection.execute(TABLES)).scalar_one())


async def count_other_sessions(connection: AsyncConnection) -> int:
    return int((await connection.execute(SESSIONS)).scalar_one())


def newer_than_this_build(databases: Mapping[str, DatabaseFacts]) -> list[str]:
    """Databases whose schema this version of podium does not know."""
    return [
        name
        for name, facts in databases.items()
        if facts.revision > newest_revision(_scripts(name))
    ]


def _scripts(service: str) -> Path:
    package = importlib.util.find_spec(service)
    assert package and package.origin, service
    return Path(package.origin).parent / "migrations"


HEADS = text("SELECT tenant, sequence, encode(hash, 'hex') AS hash FROM heads_to_anchor()")
ENTRIES_PER_STEP = 1000


class LedgerDiffers(UserError):
    def __init__(self, problem: str) -> None:
        super().__init__(
            f"the ledger of the backup does not verify: {problem}", "restore another backup"
        )


async def ledger_end(connection: AsyncConnection) -> LedgerEnd:
    heads = (await connection.execute(HEADS)).all()
    digest = hashlib.sha256()
    for head in heads:
        digest.update(json.dumps([head.tenant, head.sequence, head.hash]).encode() + b"\n")
    return LedgerEnd(
        tenants=len(heads),
        entries=sum(head.sequence for head in heads),
        heads_sha256=digest.hexdigest(),
    )


async def require_same_ledger(engine: AsyncEngine, expected: LedgerEnd) -> None:
    """Recomputes every hash, amount, balance and root of all tenants. Raises LedgerDiffers."""
    async with engine.connect() as connection:
        found = await ledger_end(connection)
        tenants = [head.tenant for head in (await connection.execute(HEADS)).all()]
    if found != expected:
        raise LedgerDiffers("its journals end elsewhere than the manifest says")
    journal, prices = AuditStore(engine), PriceBook(PriceStore(engine), PriceDeletion(engine))
    verification = Verification(journal, InvariantStore(engine), AnchorStore(engine), prices)
    for tenant in tenants:
        await _require_verified(verification, tenant)


async def _require_verified(verification: Verification, tenant: str) -> None:
    asked, at = Range(1, 0, ENTRIES_PER_STEP), Position(0)
    while True:
        step = await verification.step(tenant, asked, at)
        for finding in step.findings:
            raise LedgerDiffers(f"tenant {tenant}, {finding.row}: {finding.problem}")
        if step.next is None:
            return
        at = step.next
