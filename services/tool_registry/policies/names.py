from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches

from tool_registry.errors import InvalidPolicy
from tool_registry.models import FIND_TOOLS, PolicySpec, Preferences, Selector, ToolVersion

# The effect of a selector on what it names, for the notice that it names nothing.
EFFECTS = {
    "allow": "it allows nothing",
    "deny": "it denies nothing",
    "approval": "no call waits for a person by it",
}


def weight_key(tool: str, alias: str) -> str:
    return f"{tool}/{alias}"


def check_weighed_tools(preferences: Preferences, tools: Sequence[ToolVersion]) -> None:
    known = {tool.spec.name for tool in tools}
    known |= {weight_key(tool.spec.name, one.alias) for tool in tools for one in tool.spec.models}
    for name in preferences.tools:
        if name not in known:
            raise InvalidPolicy(
                f"preferences.tools weighs {name}, and there is no such tool; "
                f"{_nearest(name, known) or 'see `podium tools list`'}"
            )


def unmatched_names(policy: PolicySpec, tools: Sequence[ToolVersion]) -> list[str]:
    """A notice per name in a guard that matches no tool as the tools are now.

    It is no error: a policy may deny a tool that is registered later, or that a client brings.
    """
    choices = [choice for tool in tools for choice in tool.spec.choices]
    tags = {tag for choice in choices for tag in choice.tags}
    known: dict[str, Collection[str]] = {
        "names": {tool.spec.name for tool in tools} | {FIND_TOOLS},
        "tags": tags,
        "providers": {choice.provider for choice in choices},
        "models": {name for choice in choices for name in (choice.alias, choice.model)} - {""},
    }
    notices = [
        _notice(f"{field}.{part}", part[:-1], name, known[part], effect)
        for field, effect in EFFECTS.items()
        for part, name in _stated(getattr(policy, field))
        if name not in known[part]
    ]
    return notices + [
        _notice("required_tags", "tag", tag, tags, "no tool passes")
        for tag in sorted(policy.required_tags - tags)
    ]


def _stated(selector: Selector) -> Iterator[tuple[str, str]]:
    for part in ("names", "tags", "providers", "models"):
        for name in sorted(getattr(selector, part)):
            yield part, name


def _notice(field: str, noun: str, name: str, known: Collection[str], effect: str) -> str:
    thing = {"name": f"there is no tool {name}", "tag": f"no tool has the tag {name}"}
    problem = thing.get(noun, f"no tool has the {noun} {name}")
    return "; ".join(filter(None, (f"{field}: {problem}, so {effect}", _nearest(name, known))))


def _nearest(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else ""
