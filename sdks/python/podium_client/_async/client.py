"""The client."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import httpx
from pydantic import RootModel

from podium_client._async.budgets import AsyncBudgets
from podium_client._async.corpora import AsyncCorpora
from podium_client._async.episodes import AsyncEpisodes
from podium_client._async.evaluations import AsyncEvaluations
from podium_client._async.ledger import AsyncLedger
from podium_client._async.policies import AsyncPolicies
from podium_client._async.prices import AsyncPrices
from podium_client._async.secrets import AsyncSecrets
from podium_client._async.tenancy import AsyncKeys, AsyncTenancy
from podium_client._async.tools import AsyncTools
from podium_client._async.training import AsyncDeadLetters, AsyncModelVersions
from podium_client._async.transport import AsyncTransport
from podium_client._async.webhooks import AsyncWebhooks
from podium_client.retries import RetryPolicy
from podium_client.settings import Settings

Json = RootModel[dict[str, Any]]


class AsyncPodium:
    """A platform, as one API key sees it.

    `base_url` and `api_key` default to PODIUM_URL and PODIUM_API_KEY. `http` brings a client with
    certificates or proxies of its own.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 60.0,
        retries: RetryPolicy | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        settings = Settings.of(base_url, api_key, timeout_s, retries or RetryPolicy())
        self._transport = AsyncTransport(settings, http)
        self.episodes = AsyncEpisodes(self._transport)
        self.evaluations = AsyncEvaluations(self._transport)
        self.tools = AsyncTools(self._transport)
        self.policies = AsyncPolicies(self._transport)
        self.budgets = AsyncBudgets(self._transport)
        self.prices = AsyncPrices(self._transport)
        self.ledger = AsyncLedger(self._transport)
        self.keys = AsyncKeys(self._transport)
        self.tenancy = AsyncTenancy(self._transport)
        self.corpora = AsyncCorpora(self._transport)
        self.model_versions = AsyncModelVersions(self._transport)
        self.dead_letters = AsyncDeadLetters(self._transport)
        self.webhooks = AsyncWebhooks(self._transport)
        self.secrets = AsyncSecrets(self._transport)

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Any route of /openapi.json, for what this version of the client does not know."""
        reply = await self._transport.call(method, path, Json, query=query, body=body)
        return reply.root

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()
