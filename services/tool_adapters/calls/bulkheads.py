"""One gate per tool or resource of the operator: calls in flight, and whether it is well."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from podium_kit.places import Places
from tool_adapters.calls.breaker import Breaker
from tool_adapters.models import ToolDefinition

GATES_KEPT = 10_000


@dataclass(frozen=True)
class Gate:
    """What a tenant's calls of one tool meet in this process."""

    places: Places
    """All tenants share them; of the operator's resource, one tenant leaves one to the others."""
    breaker: Breaker
    """The tenant's own: what its arguments break is well for the others."""


class Gates:
    """Gates by tool version and model; the least recently used are forgotten."""

    def __init__(self) -> None:
        self._places: OrderedDict[tuple[Hashable, str], _Resource] = OrderedDict()
        self._breakers: OrderedDict[tuple[str, ToolDefinition, str], Breaker] = OrderedDict()

    def of(self, tenant: str, tool: ToolDefinition, model_alias: str) -> Gate:
        """The tenant's gate of a tool, or of one model of an llm tool."""
        key, own = (tool.resource, model_alias), (tenant, tool, model_alias)
        resource = self._places.pop(key, None) or _Resource()
        breaker = self._breakers.pop(own, None) or Breaker()
        self._places[key], self._breakers[own] = resource, breaker
        for kept in (self._places, self._breakers):
            while len(kept) > GATES_KEPT:
                kept.popitem(last=False)
        return Gate(resource.places_for(tool), breaker)


class _Resource:
    """Places of what is called, as many as the strictest of the operator's tools of it has."""

    def __init__(self) -> None:
        self._places = Places(0)
        # Version and limit, by name; a newer version takes the place of an older one.
        self._limits: dict[str, tuple[int, int]] = {}

    def places_for(self, tool: ToolDefinition) -> Places:
        name, stated = tool.name, (tool.version, tool.limits.max_concurrency)
        if not tool.shared:
            # A tenant's tool of the operator's resource has the limit of one of the operator's, or
            # where the operator has no tool of it, its own: no tenant's holds up its neighbours.
            name, stated = "", max((0, stated[1]), self._limits.get("", (0, 0)))
        if self._limits.get(name) == stated or self._limits.get(name, stated) > stated:
            return self._places
        self._limits[name] = stated
        operators = [most for each, (_, most) in self._limits.items() if each]
        count = min(operators, default=stated[1])
        # One tenant leaves a place of what all share to the others.
        self._places.resize(count, count if tool.resource == tool else max(1, count - 1))
        return self._places
