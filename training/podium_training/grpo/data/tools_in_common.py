"""Members of a group made comparable: find_tools may have given each of them other tools."""

from collections.abc import Sequence
from dataclasses import replace

from podium_training.grpo.data.episodes import Episode


def with_tools_in_common(members: Sequence[Episode]) -> list[Episode]:
    """The episodes with the tools of all of them, in the order they come.

    What an episode was not offered it has not called, and its weight is the one it has for others.
    """
    if len({member.tools for member in members}) == 1:
        return list(members)
    weights = {
        name: weight
        for member in members
        for name, weight in zip(member.tools, member.preferences.tools, strict=True)
    }
    return [_with_tools(member, weights) for member in members]


def _with_tools(member: Episode, weights: dict[str, float]) -> Episode:
    called = dict(zip(member.tools, member.features.tool_calls, strict=True))
    weighed = weights | dict(zip(member.tools, member.preferences.tools, strict=True))
    return replace(
        member,
        tools=tuple(weights),
        features=replace(
            member.features, tool_calls=tuple(called.get(name, 0) for name in weights)
        ),
        preferences=replace(member.preferences, tools=tuple(weighed[name] for name in weights)),
    )
