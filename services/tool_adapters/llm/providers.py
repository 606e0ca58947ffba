"""How many requests are in flight at each provider of language models."""

import asyncio
from collections import defaultdict

from tool_adapters.http.client import host_of
from tool_adapters.models import LlmModel


class Providers:
    """One limit for all tools that ask the same provider; the tool's timeout ends a wait."""

    def __init__(self, concurrency_max: int) -> None:
        self._slots: defaultdict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(concurrency_max)
        )

    def slot(self, model: LlmModel) -> asyncio.Semaphore:
        """A place at the model's provider, to be held while it answers."""
        # By host, because a provider's name is only what a tenant wrote.
        return self._slots[host_of(model.base_url)]
