from datetime import datetime

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from podium_kit.postgres.engine import autocommit
from podium_kit.text import storable

PUT = text(
    """
    INSERT INTO evaluation_reports (tenant, evaluation_id, report)
    VALUES (:tenant, CAST(:id AS uuid), :report)
    ON CONFLICT (tenant, evaluation_id) DO UPDATE
    SET report = EXCLUDED.report, create_time = clock_timestamp()
    """
)
GET = text(
    """
    SELECT report, create_time FROM evaluation_reports
    WHERE tenant = :tenant AND evaluation_id = CAST(:id AS uuid)
    """
)


class RunReportStore:
    """The figures of runs, as the command that computed them stored them."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def put(self, tenant: str, evaluation_id: str, report: str) -> None:
        values = {"tenant": tenant, "id": evaluation_id, "report": storable(report)}
        async with autocommit(self._engine) as connection:
            await connection.execute(PUT, values)

    async def get(self, tenant: str, evaluation_id: str) -> tuple[str, datetime] | None:
        async with autocommit(self._engine) as connection:
            result = await connection.execute(GET, {"tenant": tenant, "id": evaluation_id})
            row = result.one_or_none()
        return None if row is None else (row.report, row.create_time)
