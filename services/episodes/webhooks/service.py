from collections.abc import Sequence
from urllib.parse import urlsplit

from episodes.errors import InvalidWebhook, TooManyWebhooks, WebhookNotFound
from episodes.webhooks.models import Delivery, DeliveryState, Webhook
from episodes.webhooks.store import WebhookStore
from podium_kit.rpc.identity import current_identity

WEBHOOKS_MAX = 20
SECRET_CHARACTERS_MAX = 200


class Webhooks:
    def __init__(self, store: WebhookStore) -> None:
        self._store = store

    async def put(self, webhook: Webhook) -> Webhook:
        _check(webhook)
        stored = await self._store.put(current_identity().tenant, webhook, WEBHOOKS_MAX)
        if stored is None:
            raise TooManyWebhooks(WEBHOOKS_MAX)
        return stored

    async def list(self, after: str, limit: int) -> Sequence[Webhook]:
        return await self._store.list(current_identity().tenant, after, limit)

    async def delete(self, webhook_id: str) -> None:
        if not await self._store.delete(current_identity().tenant, webhook_id):
            raise WebhookNotFound(webhook_id)

    async def deliveries(
        self, webhook_id: str, states: Sequence[DeliveryState], before: int, limit: int
    ) -> Sequence[Delivery]:
        tenant = current_identity().tenant
        return await self._store.deliveries(tenant, webhook_id, states, before, limit)

    async def replay(self, webhook_id: str, ids: Sequence[str]) -> int:
        numbers = [int(each) for each in ids]
        count = await self._store.replay(current_identity().tenant, webhook_id, numbers)
        if numbers and count < len(set(numbers)):
            raise WebhookNotFound(webhook_id, "not all of these deliveries are there")
        return count


def _check(webhook: Webhook) -> None:
    try:
        parts = urlsplit(webhook.url)
        host = parts.hostname
    except ValueError:
        host = None
    if not host or parts.scheme not in {"http", "https"} or "@" in parts.netloc:
        raise InvalidWebhook("url", "must be an http or https URL without user information")
    if not 1 <= len(webhook.secret_name) <= SECRET_CHARACTERS_MAX:
        raise InvalidWebhook(
            "secret.name",
            "must name a secret in the adapters' secret store, which requests are signed with",
        )
