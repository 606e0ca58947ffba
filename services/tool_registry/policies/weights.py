"""What a preference vector may name: tools, and models of a tool as `ask_llm/expert`."""

from collections.abc import Sequence
from difflib import get_close_matches

from tool_registry.errors import InvalidPolicy
from tool_registry.models import Preferences, ToolVersion


def weight_key(tool: str, alias: str) -> str:
    """How a preference vector names one of a tool's models."""
    return f"{tool}/{alias}"


def check_weighed_tools(preferences: Preferences, tools: Sequence[ToolVersion]) -> None:
    """Raises InvalidPolicy for a weight of what the tenant cannot call."""
    known = {tool.spec.name for tool in tools}
    known |= {weight_key(tool.spec.name, one.alias) for tool in tools for one in tool.spec.models}
    for name in preferences.tools:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else "see `podium tools list`"
            raise InvalidPolicy(
                f"preferences.tools weighs {name}, and there is no such tool; {hint}"
            )
