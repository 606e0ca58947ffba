# Written by `make sdk` from podium_client/_async; do not edit.
"""The client."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import httpx
from pydantic import RootModel

from podium_client._sync.budgets import Budgets
from podium_client._sync.corpora import Corpora
from podium_client._sync.episodes import Episodes
from podium_client._sync.evaluations import Evaluations
from podium_client._sync.ledger import Ledger
from podium_client._sync.policies import Policies
from podium_client._sync.prices import Prices
from podium_client._sync.secrets import Secrets
from podium_client._sync.tenancy import Keys, Tenancy
from podium_client._sync.tools import Tools
from podium_client._sync.training import DeadLetters, ModelVersions
from podium_client._sync.transport import Transport
from podium_client._sync.webhooks import Webhooks
from podium_client.retries import RetryPolicy
from podium_client.settings import Settings

Json = RootModel[dict[str, Any]]


class Podium:
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
        http: httpx.Client | None = None,
    ) -> None:
        settings = Settings.of(base_url, api_key, timeout_s, retries or RetryPolicy())
        self._transport = Transport(settings, http)
        self.episodes = Episodes(self._transport)
        self.evaluations = Evaluations(self._transport)
        self.tools = Tools(self._transport)
        self.policies = Policies(self._transport)
        self.budgets = Budgets(self._transport)
        self.prices = Prices(self._transport)
        self.ledger = Ledger(self._transport)
        self.keys = Keys(self._transport)
        self.tenancy = Tenancy(self._transport)
        self.corpora = Corpora(self._transport)
        self.model_versions = ModelVersions(self._transport)
        self.dead_letters = DeadLetters(self._transport)
        self.webhooks = Webhooks(self._transport)
        self.secrets = Secrets(self._transport)

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Any route of /openapi.json, for what this version of the client does not know."""
        reply = self._transport.call(method, path, Json, query=query, body=body)
        return reply.root

    def close(self) -> None:
        """Closes the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
