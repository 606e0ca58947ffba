"""Sees that users get another version of the orchestrator, and tells the tenants that want to know.

Versions serve every tenant. What is promoted when this looks for the first time is told to nobody.
"""

from typing import Protocol

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from episodes.webhooks.events import version_promoted
from episodes.webhooks.models import EventType
from episodes.webhooks.sender import SUBJECT
from episodes.webhooks.store import WebhookStore, owe_event
from podium_kit.postgres.engine import autocommit, transaction
from podium_kit.rpc.identity import Identity, Scope, acting_as

INTERVAL_S = 5.0
# Whom the list of models is the same for as for everybody.
TENANT = "podium"

LATEST = text("SELECT version FROM promotions ORDER BY id DESC LIMIT 1")
SEEN = text("INSERT INTO promotions (version) VALUES (:version) RETURNING id")


class Promoted(Protocol):
    """Who knows what users get."""

    async def promoted(self) -> str: ...


class Promotions:
    """Owes changes of the promoted version to webhooks."""

    def __init__(self, engine: AsyncEngine, webhooks: WebhookStore, models: Promoted) -> None:
        self._engine = engine
        self._webhooks = webhooks
        self._models = models

    async def owe(self) -> None:
        """Tells of a version that is another than when it was looked at last."""
        with acting_as(Identity(TENANT, SUBJECT, frozenset({Scope.EPISODES_RUN}))):
            version = await self._models.promoted()
        async with autocommit(self._engine) as connection:
            latest = (await connection.execute(LATEST)).scalar_one_or_none()
        first = latest is None
        # An engine that serves no promoted version for a while is no change of it.
        if not first and version in ("", latest):
            return
        wanting = () if first else await self._webhooks.wanting(EventType.VERSION_PROMOTED)
        async with transaction(self._engine) as connection:
            promotion = (await connection.execute(SEEN, {"version": version})).scalar_one()
            for tenant, _ in wanting:
                event = version_promoted(tenant, promotion, version, latest or "")
                await owe_event(connection, event)
