from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from podium_kit.postgres.engine import autocommit, transaction
from tool_adapters.adapter import Answer
from tool_adapters.response_cache.models import CacheRule

ROWS_MAX = 10_000
# Of a row, besides its answer.
ROW_BYTES = 512
FIND = text(
    """
    SELECT answer FROM response_cache
    WHERE tenant = :tenant AND policy = :policy AND digest = :digest
        AND expire_time > now() AND create_time > now() - CAST(:ttl AS interval)
    """
)
# Answers of a tenant that are stored at the same time wait for each other: the quota is exact.
LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('response_cache/' || :tenant, 0))")
# The newest stay.
MAKE_ROOM = text(
    """
    DELETE FROM response_cache c USING (
        SELECT policy, digest,
            sum(size_bytes) OVER newest AS bytes, row_number() OVER newest AS place
        FROM response_cache WHERE tenant = :tenant
        WINDOW newest AS (ORDER BY create_time DESC, policy, digest)
    ) ranked
    WHERE c.tenant = :tenant AND c.policy = ranked.policy AND c.digest = ranked.digest
        AND (ranked.bytes > :room OR ranked.place >= :rows_max)
    """
)
STORE = text(
    """
    INSERT INTO response_cache (tenant, policy, digest, subject, answer, size_bytes, expire_time)
    VALUES (:tenant, :policy, :digest, :subject, :answer, :size_bytes,
            now() + CAST(:ttl AS interval))
    ON CONFLICT (tenant, policy, digest) DO UPDATE SET
        subject = excluded.subject, answer = excluded.answer, size_bytes = excluded.size_bytes,
        create_time = excluded.create_time, expire_time = excluded.expire_time
    """
)
FORGET = text("DELETE FROM response_cache WHERE expire_time <= now()")


@dataclass(frozen=True)
class CacheKey:
    tenant: str
    digest: bytes


class PostgresResponseCache:
    """Answers of each tenant and policy, as many as fit its quota and the operator's."""

    def __init__(
        self,
        engine: AsyncEngine,
        encode: Callable[[Answer], bytes],
        decode: Callable[[bytes], Answer],
        bytes_per_tenant: int,
    ) -> None:
        self._engine = engine
        self._encode = encode
        self._decode = decode
        self._bytes_per_tenant = bytes_per_tenant

    async def find(self, key: CacheKey, rule: CacheRule) -> Answer | None:
        values = {**vars(key), "policy": rule.policy, "ttl": rule.ttl}
        async with autocommit(self._engine) as connection:
            stored = (await connection.execute(FIND, values)).scalar_one_or_none()
        return None if stored is None else self._decode(bytes(stored))

    async def store(self, key: CacheKey, rule: CacheRule, subject: str, answer: Answer) -> None:
        """Stores the answer in place of the oldest ones; one that has no room at all is left."""
        encoded = self._encode(answer)
        size_bytes = len(encoded) + ROW_BYTES
        room = min(rule.quota_bytes, self._bytes_per_tenant) - size_bytes
        if room < 0:
            return
        values = {
            **vars(key),
            "policy": rule.policy,
            "ttl": rule.ttl,
            "subject": subject,
            "answer": encoded,
            "size_bytes": size_bytes,
        }
        limits = {"tenant": key.tenant, "room": room, "rows_max": ROWS_MAX}
        async with transaction(self._engine) as connection:
            await connection.execute(LOCK, {"tenant": key.tenant})
            await connection.execute(MAKE_ROOM, limits)
            await connection.execute(STORE, values)

    async def forget_expired(self) -> None:
        async with autocommit(self._engine) as connection:
            await connection.execute(FORGET)
