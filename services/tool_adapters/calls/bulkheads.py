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
        self._places: OrderedDict[tuple[Hashable, str], Places] = OrderedDict()
        self._breakers: OrderedDict[tuple[str, ToolDefinition, str], Breaker] = OrderedDict()

    def of(self, tenant: str, tool: ToolDefinition, model_alias: str) -> Gate:
        """The tenant's gate of a tool, or of one model of an llm tool."""
        key, own = (tool.resource, model_alias), (tenant, tool, model_alias)
        places = self._places.pop(key, None) or _places(tool)
        breaker = self._breakers.pop(own, None) or Breaker()
        self._places[key], self._breakers[own] = places, breaker
        for kept in (self._places, self._breakers):
            while len(kept) > GATES_KEPT:
                kept.popitem(last=False)
        return Gate(places, breaker)


def _places(tool: ToolDefinition) -> Places:
    count = tool.limits.max_concurrency
    shared = tool.resource != tool
    return Places(count, max(1, count - 1) if shared else count)
