"""Versions of the orchestrator that users were seen to get, and who is told, in PostgreSQL."""

from collections.abc import Iterable

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.webhooks.events import version_promoted
from episodes.webhooks.store import owe_event
from podium_kit.postgres.engine import autocommit, transaction

LATEST = text("SELECT version FROM promotions ORDER BY id DESC LIMIT 1")
SEEN = text("INSERT INTO promotions (version) VALUES (:version) RETURNING id")


class PromotionStore:
    """What was seen last."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def latest(self) -> str | None:
        """None before anything was seen; "" when no version was promoted then."""
        async with autocommit(self._engine) as connection:
            found: str | None = (await connection.execute(LATEST)).scalar_one_or_none()
        return found

    async def seen(self, version: str, previous: str, tenants: Iterable[str]) -> None:
        """Remembers a version, and owes it to the tenants' webhooks, in one transaction."""
        async with transaction(self._engine) as connection:
            promotion = (await connection.execute(SEEN, {"version": version})).scalar_one()
            for tenant in tenants:
                event = version_promoted(tenant, promotion, version, previous)
                await owe_event(connection, event)
