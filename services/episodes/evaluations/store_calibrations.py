from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from podium_kit.postgres.engine import autocommit, transaction

KEPT_MAX = 500
ADD = text(
    """
    INSERT INTO judge_calibrations (tenant, id, subject, body)
    VALUES (:tenant, CAST(:id AS uuid), :subject, :body) ON CONFLICT DO NOTHING
    """
)
DROP_OLD = text(
    """
    DELETE FROM judge_calibrations WHERE tenant = :tenant AND id IN (
        SELECT id FROM judge_calibrations WHERE tenant = :tenant ORDER BY id DESC OFFSET :kept
    )
    """
)
LIST = text(
    """
    SELECT id, subject, body, create_time FROM judge_calibrations WHERE tenant = :tenant
        AND (CAST(:before AS uuid) IS NULL OR id < CAST(:before AS uuid))
    ORDER BY id DESC LIMIT :limit
    """
)


@dataclass(frozen=True)
class StoredCalibration:
    """A calibration of judges; `body` is a serialized JudgeCalibration."""

    id: str
    subject: str
    body: bytes
    create_time: datetime


class CalibrationStore:
    """Calibrations of a tenant's judges, of which the newest are kept."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def add(self, tenant: str, id: str, subject: str, body: bytes) -> None:
        values = {"tenant": tenant, "id": id, "subject": subject, "body": body}
        async with transaction(self._engine) as connection:
            await connection.execute(ADD, values)
            await connection.execute(DROP_OLD, {"tenant": tenant, "kept": KEPT_MAX})

    async def list(
        self, tenant: str, before: str | None, limit: int
    ) -> Sequence[StoredCalibration]:
        values = {"tenant": tenant, "before": before, "limit": limit}
        async with autocommit(self._engine) as connection:
            return [
                StoredCalibration(str(row.id), row.subject, bytes(row.body), row.create_time)
                for row in await connection.execute(LIST, values)
            ]
