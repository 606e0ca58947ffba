"""What `model` may be: an orchestrator's name, alone or with a policy, `smollm2:cost-first`."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from cachetools import TTLCache

from gateway.errors import ModelNotFound
from gateway.models import OrchestratorModel
from podium_kit.rpc.identity import current_identity

TENANTS_MAX = 10_000
# Lets a caller name the platform's default model without knowing which one it is.
DEFAULT_ALIAS = "podium"


class CatalogueSource(Protocol):
    """Where the names come from."""

    async def models(self) -> list[OrchestratorModel]: ...
    async def policy_names(self) -> list[str]: ...


@dataclass(frozen=True)
class Names:
    """What a tenant can choose from."""

    models: tuple[OrchestratorModel, ...]
    policies: tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    """A model and a policy; "" leaves it to the platform or the tenant."""

    model: str
    policy: str


class Catalogue:
    """Lists and resolves model ids; the names are remembered a few seconds."""

    def __init__(self, source: CatalogueSource, cache_s: float) -> None:
        self._source = source
        self._cache: TTLCache[str, Names] = TTLCache(TENANTS_MAX, cache_s)

    async def names(self) -> Names:
        tenant = current_identity().tenant
        if known := self._cache.get(tenant):
            return known
        models, policies = await asyncio.gather(self._source.models(), self._source.policy_names())
        self._cache[tenant] = names = Names(tuple(models), tuple(policies))
        return names

    async def resolve(self, model_id: str) -> Choice:
        """What the id means. Raises ModelNotFound."""
        names = await self.names()
        known = {DEFAULT_ALIAS: "", **{model.name: model.name for model in names.models}}
        # Whole ids first: a model's own name may contain a colon.
        if model_id in known:
            return Choice(known[model_id], "")
        model, _, policy = model_id.rpartition(":")
        if model in known and policy in names.policies:
            return Choice(known[model], policy)
        raise ModelNotFound(model_id, known, names.policies)
