"""Resolved toolsets: kept, and after a change resolved again only where it matters.

Ten thousand tools take a quarter of a second to describe, and one that changes takes
twenty-five microseconds; so every tool's entry is kept with what it was made from.
"""

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from cachetools import LRUCache

from tool_registry.errors import ToolNotFound, ToolRejected
from tool_registry.facts.measurements import Measurements
from tool_registry.models import FIND_TOOLS, PolicyVersion, Toolset, ToolVersion
from tool_registry.tools.catalogue import Tools
from tool_registry.toolsets.best_tools import denies_finding
from tool_registry.toolsets.price_cache import Prices
from tool_registry.toolsets.resolver import Known, ResolvedEntry, resolve_tool, sources_of

# Counted in tools, because a toolset may hold one or ten thousand.
TOOLS_KEPT = 50_000
# Tools resolved before others get a turn: some two milliseconds of the event loop.
TOOLS_AT_ONCE = 100


@dataclass(frozen=True)
class Sources:
    """The sources of a tenant's toolsets; equal when all three are the same objects."""

    tools: Tools
    prices: Prices
    measured: Measurements


@dataclass(frozen=True)
class _Kept:
    sources: Sources
    toolset: Toolset
    entries: Mapping[str, ResolvedEntry]


class Toolsets:
    """One toolset per tenant and version of a policy."""

    def __init__(self, llm_input_tokens_max: int) -> None:
        self._llm_input_tokens_max = llm_input_tokens_max
        self._kept: LRUCache[Hashable, _Kept] = LRUCache(TOOLS_KEPT, getsizeof=_size)
        self._resolving: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    async def of(self, tenant: str, policy: PolicyVersion, sources: Sources) -> Toolset:
        # A version of a policy is immutable; one that is only tried has no digest.
        key = (tenant, policy.spec.name, policy.version, policy.digest, policy.model)
        async with self._resolving.setdefault(key, asyncio.Lock()):
            kept = self._kept.get(key) if policy.digest else None
            if kept is None or kept.sources != sources:
                kept = await self._resolved(policy, sources, kept.entries if kept else {})
                if policy.digest and _size(kept) <= TOOLS_KEPT:
                    self._kept[key] = kept
        return kept.toolset

    def known(self, sources: Sources) -> Known:
        prices, facts = sources.prices.by_sku, sources.measured.facts
        return Known(sources.tools, prices, facts, self._llm_input_tokens_max)

    async def _resolved(
        self, policy: PolicyVersion, sources: Sources, before: Mapping[str, ResolvedEntry]
    ) -> _Kept:
        known, entries = self.known(sources), {}
        tools = sources.tools.current
        for start in range(0, len(tools), TOOLS_AT_ONCE):
            for tool in tools[start : start + TOOLS_AT_ONCE]:
                entries[tool.spec.name] = _entry(policy, tool, known, before.get(tool.spec.name))
            await asyncio.sleep(0)
        resolved = tuple(entry.tool for entry in entries.values() if entry.tool)
        decisions = tuple(entry.decision for entry in entries.values())
        return _Kept(sources, Toolset(resolved, policy, decisions), entries)


def without_embedders(toolset: Toolset) -> Toolset:
    embedders = {tool.version.spec.name for tool in toolset.tools if tool.version.spec.embeds}
    if not embedders:
        return toolset
    return replace(
        toolset,
        tools=tuple(each for each in toolset.tools if each.version.spec.name not in embedders),
        decisions=tuple(each for each in toolset.decisions if each.name not in embedders),
    )


def narrowed(toolset: Toolset, wanted: Sequence[str]) -> Toolset:
    """Keeps the wanted tools, find_tools among them if named. Raises ToolNotFound, ToolRejected."""
    if not wanted:
        return toolset
    names = sorted(set(wanted) - {FIND_TOOLS})
    decisions = [toolset.decision(name) for name in names]
    for name, decision in zip(names, decisions, strict=True):
        if decision is None:
            raise ToolNotFound(name)
        if not decision.allowed:
            raise ToolRejected(name, decision.reason)
    if FIND_TOOLS in wanted and denies_finding(toolset.policy.spec):
        raise ToolRejected(FIND_TOOLS, f"denied by name {FIND_TOOLS}")
    tools = tuple(toolset.by_name[name] for name in names)
    finder = FIND_TOOLS in wanted
    return Toolset(tools, toolset.policy, tuple(one for one in decisions if one), finder)


def _entry(
    policy: PolicyVersion, tool: ToolVersion, known: Known, before: ResolvedEntry | None
) -> ResolvedEntry:
    if before is not None:
        pairs = zip(before.sources, sources_of(tool, known), strict=False)
        if all(old is new for old, new in pairs):
            return before
    return resolve_tool(policy.spec, tool, known)


def _size(kept: _Kept) -> int:
    return 1 + len(kept.entries)
