"""A role and a database for each service, made once by an administrator's URL.

A URL that is in its Secret already says what to make; where there is none, a password is made and
the URL is written when everything behind it works. Roles that someone else made stay as they are.
"""

import logging
import secrets
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import asyncpg
import tenacity
from sqlalchemy import URL
from sqlalchemy.exc import ArgumentError

from podium_kit.client.errors import UserError
from podium_kit.postgres.urls import connect_arguments, driver_url
from podium_operations.bootstrap.cluster_objects import ClusterObjects
from podium_operations.bootstrap.settings import Databases, SecretKey, ServiceRole
from podium_operations.bootstrap.waiting import saying

log = logging.getLogger(__name__)

# What the migrations of each database need; every role may use a trusted one, not all are trusted.
EXTENSIONS = {"cost_ledger": ("btree_gist",)}
# Any constant will do: it keeps two Jobs from making the same role at once.
LOCK = 7_263_002
WAIT_S, WAITS_MAX = 2.0, 150
AWAY = (OSError, asyncpg.CannotConnectNowError, asyncpg.ConnectionDoesNotExistError)
MISSING = (asyncpg.InvalidCatalogNameError, asyncpg.InvalidAuthorizationSpecificationError)


class DatabaseRejected(UserError):
    """PostgreSQL does not do what it is asked."""


class DatabaseMaker:
    def __init__(self, objects: ClusterObjects, mark: str) -> None:
        self._objects = objects
        self._mark = mark

    async def make(self, wanted: Databases) -> list[str]:
        stored = await self._stored(wanted.roles)
        if len(stored) == len(wanted.roles) and not await self._missing(wanted, stored):
            return []
        made: list[str] = []
        admin_url = await self._admin(wanted.admin)
        async with _connected(admin_url) as admin:
            await admin.execute("SELECT pg_advisory_lock($1)", LOCK)
            # Another run may have written them meanwhile.
            stored = await self._stored(wanted.roles)
            urls = {
                each.role: stored.get(each.role) or _new(admin_url, each) for each in wanted.roles
            }
            for each in wanted.roles:
                made += await self._role(admin, each, urls)
            for each in wanted.roles:
                made += await self._database(admin, admin_url, each, urls)
            await self._store(wanted.roles, urls, stored)
        return made

    async def _admin(self, where: SecretKey) -> URL:
        text = (await self._objects.secret(where.secret) or {}).get(where.key)
        if text is None:
            raise DatabaseRejected(
                "databases of the services are missing, and there is no administrator's URL to "
                f"make them with: Secret {where.secret} has no {where.key}",
                f"kubectl create secret generic {where.secret} --from-literal="
                f"{where.key}=postgresql://USER:PASSWORD@HOST:5432/postgres, or set "
                "bootstrap.databases.enabled: false and make them yourself (k8s/README.md)",
            )
        url = _parsed(text, where)
        return url.set(database=url.database or "postgres")

    async def _stored(self, roles: Iterable[ServiceRole]) -> dict[str, URL]:
        found = {}
        for each in roles:
            text = await self._value(each)
            if text is not None:
                found[each.role] = _parsed(text, each.url)
        return found

    async def _value(self, each: ServiceRole) -> str | None:
        def absent(value: str | None) -> bool:
            return each.external and value is None

        patient = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_result(absent),
            wait=tenacity.wait_fixed(WAIT_S),
            stop=tenacity.stop_after_attempt(WAITS_MAX),
            before_sleep=saying(f"waiting for Secret {each.url.secret}"),
        )

        async def read() -> str | None:
            return (await self._objects.secret(each.url.secret) or {}).get(each.url.key)

        try:
            return await patient(read)
        except tenacity.RetryError as error:
            raise DatabaseRejected(
                f"Secret {each.url.secret} is still missing",
                "see `kubectl describe externalsecret`: its operator fetches it",
            ) from error

    async def _missing(self, wanted: Databases, stored: dict[str, URL]) -> list[str]:
        return [each.role for each in wanted.roles if not await _works(stored[each.role], each.url)]

    async def _role(
        self, admin: asyncpg.Connection, wanted: ServiceRole, urls: dict[str, URL]
    ) -> list[str]:
        url = urls[wanted.role]
        name, password = url.username or "", _literal(str(url.password or ""))
        comment = await admin.fetchrow(
            "SELECT shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = $1", name
        )
        if comment is None:
            async with admin.transaction():
                await admin.execute(f"CREATE ROLE {_quoted(name)} LOGIN PASSWORD {password}")
                await admin.execute(f"COMMENT ON ROLE {_quoted(name)} IS {_literal(self._mark)}")
            return [f"role {name}"]
        if comment[0] == self._mark:
            # Ours: an earlier run ended before its Secret was written, or the Secret was deleted.
            await admin.execute(f"ALTER ROLE {_quoted(name)} LOGIN PASSWORD {password}")
            return []
        if await _works(url, wanted.url, without_database=True):
            return []
        raise DatabaseRejected(
            f"PostgreSQL has a role {name} already, which this release did not make",
            f"write its URL into Secret {wanted.url.secret}, key {wanted.url.key}; one PostgreSQL "
            "serves one release",
        )

    async def _database(
        self,
        admin: asyncpg.Connection,
        admin_url: URL,
        wanted: ServiceRole,
        urls: dict[str, URL],
    ) -> list[str]:
        role, database = urls[wanted.role].username or "", urls[wanted.role].database or ""
        made = []
        exists = await admin.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", database)
        if not exists:
            if not wanted.owns:
                raise DatabaseRejected(
                    f"the URL of {role} names the database {database}, which has no owner's URL",
                    f"correct Secret {wanted.url.secret}, key {wanted.url.key}",
                )
            # An administrator that is no superuser gives away only what it is a member of.
            await admin.execute(f"GRANT {_quoted(role)} TO CURRENT_USER")
            await admin.execute(f"CREATE DATABASE {_quoted(database)} OWNER {_quoted(role)}")
            await admin.execute(f"REVOKE CONNECT ON DATABASE {_quoted(database)} FROM PUBLIC")
            made.append(f"database {database}")
        if wanted.owns:
            made += await _extensions(admin_url, database)
        else:
            await admin.execute(f"GRANT CONNECT ON DATABASE {_quoted(database)} TO {_quoted(role)}")
        return made

    async def _store(
        self, roles: Iterable[ServiceRole], urls: dict[str, URL], stored: dict[str, URL]
    ) -> None:
        new: dict[str, dict[str, str]] = {}
        for each in roles:
            if each.role not in stored:
                text = urls[each.role].render_as_string(hide_password=False)
                new.setdefault(each.url.secret, {})[each.url.key] = text
        for secret, values in new.items():
            await self._objects.write_secret(secret, values)
            log.info("Secret %s has %s", secret, ", ".join(sorted(values)))


async def _extensions(admin_url: URL, database: str) -> list[str]:
    made = []
    for extension in EXTENSIONS.get(database, ()):
        async with _connected(admin_url.set(database=database)) as inside:
            if await inside.fetchval("SELECT 1 FROM pg_extension WHERE extname = $1", extension):
                continue
            try:
                await inside.execute(f"CREATE EXTENSION {_quoted(extension)}")
            except asyncpg.PostgresError as error:
                raise DatabaseRejected(
                    f"PostgreSQL has no extension {extension}: {error}",
                    "install its contrib package, or allow the extension where your provider asks",
                ) from error
            made.append(f"extension {extension} of {database}")
    return made


async def _works(url: URL, where: SecretKey, *, without_database: bool = False) -> bool:
    """Returns whether the role can log in. Raises DatabaseRejected where only a person can help."""
    try:
        async with _connected(url):
            return True
    except asyncpg.InvalidCatalogNameError:
        return without_database
    except MISSING as error:
        # PostgreSQL tells no one whether the role or its password is wrong.
        log.debug("%s cannot log in: %s", url.username, error)
        return False
    except asyncpg.InsufficientPrivilegeError:
        return False


@asynccontextmanager
async def _connected(url: URL) -> AsyncIterator[asyncpg.Connection]:
    patient = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type(AWAY),
        wait=tenacity.wait_fixed(WAIT_S),
        stop=tenacity.stop_after_attempt(WAITS_MAX),
        before_sleep=saying(f"waiting for PostgreSQL at {_where(url)}"),
        reraise=True,
    )
    try:
        connection: asyncpg.Connection = await patient(
            asyncpg.connect, **connect_arguments(url), timeout=10
        )
    except AWAY as error:
        raise DatabaseRejected(
            f"PostgreSQL does not answer at {_where(url)}: {error or type(error).__name__}",
            "start it, correct the URL, or let the Job reach it: endpoints.postgres",
        ) from error
    try:
        yield connection
    finally:
        await connection.close()


def _parsed(text: str, where: SecretKey) -> URL:
    try:
        url = driver_url(text)
    except ArgumentError as error:
        raise DatabaseRejected(
            f"key {where.key} of Secret {where.secret} is no URL of PostgreSQL",
            "write postgresql://USER:PASSWORD@HOST:5432/DATABASE; escape /, @ and : in passwords",
        ) from error
    if not url.username:
        raise DatabaseRejected(
            f"the URL in key {where.key} of Secret {where.secret} names no role",
            "write postgresql://USER:PASSWORD@HOST:5432/DATABASE",
        )
    return url


def _new(admin_url: URL, wanted: ServiceRole) -> URL:
    return admin_url.set(
        username=wanted.role, password=secrets.token_urlsafe(32), database=wanted.database
    )


def _where(url: URL) -> str:
    return url.render_as_string(hide_password=True)


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _literal(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"
