"""Sees that users get another version of the orchestrator, and tells the tenants that want to know.

Versions serve every tenant. What is promoted when this looks for the first time is told to nobody.
"""

from typing import Protocol

from episodes.webhooks.models import EventType
from episodes.webhooks.sender import SUBJECT
from episodes.webhooks.store import WebhookStore
from episodes.webhooks.store_promotions import PromotionStore
from podium_kit.rpc.identity import Identity, Scope, acting_as

INTERVAL_S = 5.0
# Whom the list of models is the same for as for everybody.
TENANT = "podium"


class Promoted(Protocol):
    """Who knows what users get."""

    async def promoted(self) -> str: ...


class Promotions:
    """Owes changes of the promoted version to webhooks."""

    def __init__(self, store: PromotionStore, webhooks: WebhookStore, models: Promoted) -> None:
        self._store = store
        self._webhooks = webhooks
        self._models = models

    async def owe(self) -> None:
        """Tells of a version that is another than when it was looked at last."""
        with acting_as(Identity(TENANT, SUBJECT, frozenset({Scope.EPISODES_RUN}))):
            version = await self._models.promoted()
        latest = await self._store.latest()
        # An engine that serves no promoted version for a while is no change of it.
        if latest is not None and version in ("", latest):
            return
        told = EventType.VERSION_PROMOTED
        wanting = [] if latest is None else await self._webhooks.wanting(told)
        await self._store.seen(version, latest or "", [tenant for tenant, _ in wanting])
