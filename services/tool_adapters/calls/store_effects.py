from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from podium_kit.postgres.engine import autocommit
from podium_kit.postgres.leadership import IS_HELD
from tool_adapters.adapter import Answer
from tool_adapters.calls.effects import Claim, ClaimAttempt

CLAIM = text(
    """
    INSERT INTO effects (tenant, key, digest, claim_id, holder)
    VALUES (:tenant, :key, :digest, :claim_id, :holder)
    ON CONFLICT (tenant, key) DO NOTHING
    """
)
SELECT_CLAIM = text(
    f"""
    SELECT digest, answer, answer IS NULL AND NOT {IS_HELD.format(name="holder")} AS is_left
    FROM effects WHERE tenant = :tenant AND key = :key
    """  # noqa: S608  a constant
)
RELEASE = text(
    """
    DELETE FROM effects
    WHERE tenant = :tenant AND key = :key AND claim_id = :claim_id AND answer IS NULL
    """
)
STORE_ANSWER = text(
    """
    UPDATE effects SET answer = :answer
    WHERE tenant = :tenant AND key = :key AND answer IS NULL
    """
)
FORGET = text("DELETE FROM effects WHERE create_time < now() - CAST(:age AS interval)")


class PostgresEffectStore:
    """One row per call; an answer is written once and never changed."""

    def __init__(
        self,
        engine: AsyncEngine,
        encode: Callable[[Answer], bytes],
        decode: Callable[[bytes], Answer],
        holder: str,
    ) -> None:
        """`holder` names the lock of this process, by which others see that it lives."""
        self._engine = engine
        self._encode = encode
        self._decode = decode
        self._holder = holder

    async def claim(self, tenant: str, key: str, digest: str, attempt: ClaimAttempt) -> Claim:
        values = {"tenant": tenant, "key": key, "holder": self._holder}
        claimed = values | {"digest": digest, "claim_id": attempt.id}
        async with autocommit(self._engine) as connection:
            attempt.sent = True
            inserted = await connection.execute(CLAIM, claimed)
            while not inserted.rowcount:
                row = (await connection.execute(SELECT_CLAIM, values)).one_or_none()
                if row is not None:
                    answer = self._decode(row.answer) if row.answer else None
                    return Claim(row.digest, answer, is_left=row.is_left)
                # It was given back meanwhile.
                inserted = await connection.execute(CLAIM, claimed)
        return Claim(digest, is_new=True)

    async def release(self, tenant: str, key: str, claim_id: UUID) -> None:
        values = {"tenant": tenant, "key": key, "claim_id": claim_id}
        async with autocommit(self._engine) as connection:
            await connection.execute(RELEASE, values)

    async def answer(self, tenant: str, key: str, answer: Answer) -> None:
        values = {"tenant": tenant, "key": key, "answer": self._encode(answer)}
        async with autocommit(self._engine) as connection:
            await connection.execute(STORE_ANSWER, values)

    async def forget_older_than(self, age: timedelta) -> None:
        async with autocommit(self._engine) as connection:
            await connection.execute(FORGET, {"age": age})
