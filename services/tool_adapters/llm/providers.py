from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from podium_kit.limits.concurrency import FairSemaphore
from tool_adapters.http.client import host_of
from tool_adapters.models import LlmModel


class Providers:
    """One limit for all tools that ask the same provider; the tool's timeout ends a wait."""

    def __init__(self, concurrency_max: int) -> None:
        self._places: defaultdict[str, FairSemaphore] = defaultdict(
            lambda: FairSemaphore(concurrency_max)
        )

    @asynccontextmanager
    async def slot(self, tenant: str, model: LlmModel) -> AsyncIterator[None]:
        """A place at the model's provider, to be held while it answers.

        One that becomes free goes to the tenant that has the fewest there.
        """
        # By host, because a provider's name is only what a tenant wrote.
        host = host_of(model.base_url)
        places = self._places[host]
        try:
            async with places.slot(tenant):
                yield
        finally:
            # Tenants write the hosts: those that no one asks are not kept.
            if places.is_idle and self._places.get(host) is places:
                del self._places[host]
