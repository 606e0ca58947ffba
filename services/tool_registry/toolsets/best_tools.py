from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from podium_kit.attachments import MediaKind
from tool_registry.models import FIND_TOOLS, PolicySpec, ResolvedTool, Toolset, ToolVersion

# General tools are like no task in particular: of four places one is theirs. So is the tool
# that gives the answer: one has a place.
PLACES_PER_GENERAL_TOOL = 4


def best_of(
    toolset: Toolset, ranked: Iterable[ToolVersion], places: int, known: Set[str]
) -> Toolset:
    """Returns as many of the toolset's tools as there are places, by rank.

    They stay in name order, so that prompts for tasks alike begin alike and engines cache them.
    """
    unknown = [
        toolset.by_name[tool.spec.name]
        for tool in ranked
        if tool.spec.name in toolset.by_name and tool.spec.name not in known
    ]
    if len(unknown) <= places and not known:
        return toolset
    names = sorted(_chosen(unknown, places))
    tools = tuple(toolset.by_name[name] for name in names)
    decisions = tuple(one for name in names if (one := toolset.decision(name)))
    finder = FIND_TOOLS not in known and not denies_finding(toolset.policy.spec)
    return replace(toolset, tools=tools, decisions=decisions, finder=finder)


def readers_first(
    toolset: Toolset, ranked: Iterable[ToolVersion], attached: Set[MediaKind]
) -> Iterable[ToolVersion]:
    """The ranks, with tools before others that have an allowed model that reads all of it, or else
    some."""
    if not attached:
        return ranked

    def unread(tool: ToolVersion) -> int:
        resolved = toolset.by_name.get(tool.spec.name)
        models = resolved.models if resolved else ()
        return min((len(attached - model.takes) for model in models), default=len(attached))

    return sorted(ranked, key=unread)


def denies_finding(policy: PolicySpec) -> bool:
    policies = (policy, *(floor.policy.spec for floor in policy.floors))
    return any(FIND_TOOLS in each.deny.names for each in policies)


def _chosen(ranked: Sequence[ResolvedTool], places: int) -> list[str]:
    specs = [tool.version.spec for tool in ranked]
    due = places // PLACES_PER_GENERAL_TOOL
    general = [spec.name for spec in specs if spec.general][:due]
    answering = [spec.name for spec in specs if spec.gives_answer][: min(due, 1)]
    by_rank = [spec.name for spec in specs]
    return list(dict.fromkeys([*general, *answering, *by_rank]))[:places]
