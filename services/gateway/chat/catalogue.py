"""Values of `model`: an orchestrator or a model of a tool, alone or with a policy.

`smollm2`, `smollm2:cost-first`, `tool/ask_llm`, `tool/ask_llm/expert:cost-first`.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from cachetools import TTLCache

from gateway.errors import ModelNotFound, UnsupportedParameter
from gateway.models import OrchestratorModel, ToolModels
from podium_kit.rpc.identity import current_identity

CALLERS_MAX = 10_000
# Lets a caller name the platform's default model without knowing which one it is.
DEFAULT_ALIAS = "podium"
TOOL_PREFIX = "tool/"


class CatalogueSource(Protocol):
    async def models(self) -> list[OrchestratorModel]: ...
    async def policy_names(self) -> list[str]: ...
    async def tools(self) -> list[ToolModels]: ...


@dataclass(frozen=True)
class Names:
    """The names that a caller can choose from; tools are those that its active policy allows."""

    models: tuple[OrchestratorModel, ...]
    policies: tuple[str, ...]
    tools: tuple[ToolModels, ...]

    def ids(self) -> Iterator[str]:
        plain = [DEFAULT_ALIAS, *(model.name for model in self.models)]
        yield from plain
        yield from (f"{name}:{policy}" for name in plain for policy in self.policies)
        for tool in self.tools:
            if len(tool.aliases) == 1:
                yield f"{TOOL_PREFIX}{tool.name}"
            yield from (f"{TOOL_PREFIX}{tool.name}/{alias}" for alias in tool.aliases)


@dataclass(frozen=True)
class Choice:
    """A model and a policy; "" leaves it to the platform or the tenant.

    A tool is called without an episode: the model of that alias, or its only one.
    """

    model: str
    policy: str
    tool: str = ""
    alias: str = ""


class ChatModels:
    """Lists and resolves model ids. To resolve one, names are remembered a few seconds."""

    def __init__(self, source: CatalogueSource, cache_s: float) -> None:
        self._source = source
        self._cache: TTLCache[tuple[str, frozenset[str]], Names] = TTLCache(CALLERS_MAX, cache_s)

    async def names(self) -> Names:
        """Returns the names of now: a tool that was just registered is listed."""
        models, policies, tools = await asyncio.gather(
            self._source.models(), self._source.policy_names(), self._source.tools()
        )
        self._cache[_caller()] = names = Names(tuple(models), tuple(policies), tuple(tools))
        return names

    async def resolve(self, model_id: str) -> Choice:
        """Resolves an id. Raises ModelNotFound.

        Of a tool the registry says whether it is there and allowed, when it is called.
        """
        if known := self._cache.get(_caller()):
            # What is not remembered may be newer.
            with suppress(ModelNotFound):
                return _choice(model_id, known)
        return _choice(model_id, await self.names())

    async def orchestrator(self, model_id: str) -> Choice:
        choice = await self.resolve(model_id)
        if choice.tool:
            raise UnsupportedParameter("model", "this needs an orchestrator; name podium")
        return choice


def _caller() -> tuple[str, frozenset[str]]:
    """Policies may bind two callers of a tenant differently."""
    identity = current_identity()
    return identity.tenant, identity.principals


def _choice(model_id: str, names: Names) -> Choice:
    if model_id.startswith(TOOL_PREFIX):
        return _tool(model_id, names)
    known = {DEFAULT_ALIAS: "", **{model.name: model.name for model in names.models}}
    # Whole ids first: a model's own name may contain a colon.
    if model_id in known:
        return Choice(known[model_id], "")
    model, _, policy = model_id.rpartition(":")
    if model in known and policy in names.policies:
        return Choice(known[model], policy)
    raise ModelNotFound(model_id, known, names.policies)


def _tool(model_id: str, names: Names) -> Choice:
    choice = Choice("", "")
    path, _, policy = model_id.rpartition(":")
    if policy in names.policies:
        choice = replace(choice, policy=policy)
    else:
        path = model_id
    name, _, alias = path.removeprefix(TOOL_PREFIX).partition("/")
    if not name:
        ids = (f"{TOOL_PREFIX}{tool.name}" for tool in names.tools)
        raise ModelNotFound(model_id, ids, names.policies)
    return replace(choice, tool=name, alias=alias)
