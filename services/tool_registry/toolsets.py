"""Resolved toolsets, remembered until one of the things they are made of changes."""

from collections.abc import Hashable

from cachetools import LRUCache

from tool_registry.catalogue import Tools
from tool_registry.measurements import Measurements
from tool_registry.models import PolicyVersion, Toolset
from tool_registry.price_cache import Prices
from tool_registry.resolver import Known, resolve

# Counted in tools, because a toolset may hold one or ten thousand.
TOOLS_KEPT = 50_000


class Toolsets:
    """`resolve`, not repeated for the same tools, policy, prices and measurements."""

    def __init__(self, llm_input_tokens_max: int) -> None:
        self._llm_input_tokens_max = llm_input_tokens_max
        self._known: LRUCache[Hashable, Toolset] = LRUCache(TOOLS_KEPT, getsizeof=_size)

    def of(
        self, tools: Tools, policy: PolicyVersion, prices: Prices, measured: Measurements
    ) -> Toolset:
        """What an episode under the policy may use."""
        # A version of a policy is immutable; one that is only tried has no digest.
        identity = (policy.spec.name, policy.version, policy.digest)
        key = (tools, identity, prices, measured)
        if not policy.digest or key not in self._known:
            known = Known(prices.by_sku, measured.facts, self._llm_input_tokens_max)
            toolset = resolve(tools.current, policy, known)
            if not policy.digest or _size(toolset) > TOOLS_KEPT:
                return toolset
            self._known[key] = toolset
        return self._known[key]


def _size(toolset: Toolset) -> int:
    return 1 + len(toolset.decisions)
