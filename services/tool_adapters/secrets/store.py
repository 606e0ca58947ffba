from typing import Any

from sqlalchemy import text
from sqlalchemy.engine import Row
from sqlalchemy.ext.asyncio import AsyncEngine

from podium_kit.postgres.engine import autocommit, transaction
from tool_adapters.secrets.errors import TooManySecrets
from tool_adapters.secrets.models import NewSecret, Owner, Sealed, SecretInfo

SECRETS_MAX = 500
# The lock makes the count true when several are stored at once.
LOCK = text(
    "SELECT pg_advisory_xact_lock(hashtextextended('secrets/' || :tenant || '/' || :subject, 0))"
)
OTHERS = text(
    "SELECT count(*) FROM secrets WHERE tenant = :tenant AND subject = :subject AND name <> :name"
)
PUT = text(
    """
    INSERT INTO secrets (tenant, subject, name, version, hosts, key_id, wrapped_key, nonce,
        ciphertext, updated_by)
    VALUES (:tenant, :subject, :name, 1, CAST(:hosts AS text[]), :key_id, :wrapped_key, :nonce,
        :ciphertext, :updated_by)
    ON CONFLICT (tenant, subject, name) DO UPDATE SET version = secrets.version + 1,
        hosts = excluded.hosts, key_id = excluded.key_id, wrapped_key = excluded.wrapped_key,
        nonce = excluded.nonce, ciphertext = excluded.ciphertext,
        updated_by = excluded.updated_by, update_time = clock_timestamp()
    RETURNING *
    """
)
LIST = text(
    """
    SELECT name, version, hosts, update_time, updated_by FROM secrets
    WHERE tenant = :tenant AND subject = :subject AND name > :after ORDER BY name LIMIT :limit
    """
)
DELETE = text(
    "DELETE FROM secrets WHERE tenant = :tenant AND subject = :subject AND name = :name"
    " RETURNING name"
)
FIND = text("SELECT * FROM secrets WHERE tenant = :tenant AND subject = :subject AND name = :name")
UNDER_OTHERS = text(
    """
    SELECT * FROM secrets
    WHERE key_id <> :key_id AND (tenant, subject, name) > (:tenant, :subject, :name)
    ORDER BY tenant, subject, name LIMIT :limit
    """
)
# A value that was replaced meanwhile has a key of its own.
REWRAP = text(
    """
    UPDATE secrets SET key_id = :key_id, wrapped_key = :wrapped_key
    WHERE tenant = :tenant AND subject = :subject AND name = :name AND nonce = :nonce
    """
)


class PostgresSecretStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def put(self, secret: NewSecret, sealed: Sealed) -> SecretInfo:
        place = {**_of(secret.owner), "name": secret.name}
        values = {
            **place,
            "hosts": list(secret.hosts),
            "key_id": sealed.key_id,
            "wrapped_key": sealed.wrapped_key,
            "nonce": sealed.nonce,
            "ciphertext": sealed.ciphertext,
            "updated_by": secret.updated_by,
        }
        async with transaction(self._engine) as connection:
            await connection.execute(LOCK, _of(secret.owner))
            if (await connection.execute(OTHERS, place)).scalar_one() >= SECRETS_MAX:
                raise TooManySecrets(SECRETS_MAX)
            return _info((await connection.execute(PUT, values)).one())

    async def list_of(self, owner: Owner, after: str, limit: int) -> list[SecretInfo]:
        values = {**_of(owner), "after": after, "limit": limit}
        async with autocommit(self._engine) as connection:
            return [_info(row) for row in await connection.execute(LIST, values)]

    async def delete(self, owner: Owner, name: str) -> bool:
        async with transaction(self._engine) as connection:
            found = await connection.execute(DELETE, {**_of(owner), "name": name})
            return found.one_or_none() is not None

    async def find(self, owner: Owner, name: str) -> tuple[SecretInfo, Sealed] | None:
        async with autocommit(self._engine) as connection:
            found = await connection.execute(FIND, {**_of(owner), "name": name})
            row = found.one_or_none()
        return (_info(row), _sealed(row)) if row else None

    async def under_others(
        self, key_id: str, after: tuple[Owner, str], limit: int
    ) -> list[tuple[Owner, str, Sealed]]:
        """Lists the secrets under other master keys, in the order of owners and names."""
        owner, name = after
        values = {**_of(owner), "name": name, "key_id": key_id, "limit": limit}
        async with autocommit(self._engine) as connection:
            rows = await connection.execute(UNDER_OTHERS, values)
            return [(Owner(row.tenant, row.subject), row.name, _sealed(row)) for row in rows]

    async def rewrap(self, owner: Owner, name: str, sealed: Sealed) -> None:
        values = {
            **_of(owner),
            "name": name,
            "key_id": sealed.key_id,
            "wrapped_key": sealed.wrapped_key,
            "nonce": sealed.nonce,
        }
        async with transaction(self._engine) as connection:
            await connection.execute(REWRAP, values)


def _of(owner: Owner) -> dict[str, Any]:
    return {"tenant": owner.tenant, "subject": owner.subject}


def _info(row: Row[Any]) -> SecretInfo:
    return SecretInfo(row.name, row.version, tuple(row.hosts), row.update_time, row.updated_by)


def _sealed(row: Row[Any]) -> Sealed:
    return Sealed(row.key_id, row.wrapped_key, row.nonce, row.ciphertext)
