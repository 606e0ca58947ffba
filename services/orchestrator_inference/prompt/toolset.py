"""Facts derived from a request's tools, computed once per set and cached."""

from collections.abc import Sequence
from functools import lru_cache

from orchestrator_inference.action.schema import ActionOptions, build_constraint
from orchestrator_inference.errors import DuplicateTool
from orchestrator_inference.models import Constraint, PromptTool, ResultSection
from orchestrator_inference.prompt.budgets import estimated_tokens
from orchestrator_inference.prompt.fitting import ShownTools
from orchestrator_inference.prompt.tool_listing import list_tools

TOOLSETS_KEPT = 256
CONSTRAINTS_KEPT = 16


class PromptToolset:
    def __init__(self, tools: Sequence[PromptTool], description_chars_max: int) -> None:
        self.sections: dict[str, ResultSection] = {}
        for tool in tools:
            if tool.name in self.sections:
                raise DuplicateTool(tool.name)
            self.sections[tool.name] = tool.section
        self.listing = list_tools(tools, description_chars_max)
        self._tools = tuple(tools)
        self._description_chars_max = description_chars_max
        self.constraint = lru_cache(CONSTRAINTS_KEPT)(self._build_constraint)

    def listing_of(self, shown: ShownTools) -> str:
        lines = self._lines(shown.tools, shown.description_chars_max)
        return "\n".join(part for part in (lines, shown.note()) if part)

    def listing_tokens(self, tools: Sequence[PromptTool], description_chars_max: int) -> int:
        return estimated_tokens(self._lines(tools, description_chars_max))

    def _lines(self, tools: Sequence[PromptTool], description_chars_max: int) -> str:
        whole = description_chars_max == self._description_chars_max
        if whole and tuple(tools) == self._tools:
            return self.listing
        return list_tools(tools, description_chars_max)

    def _build_constraint(self, options: ActionOptions) -> Constraint:
        return build_constraint(self._tools, options)


class PromptToolsets:
    def __init__(self, description_chars_max: int) -> None:
        self._description_chars_max = description_chars_max
        self.of = lru_cache(TOOLSETS_KEPT)(self._build)

    def _build(self, tools: tuple[PromptTool, ...]) -> PromptToolset:
        return PromptToolset(tools, self._description_chars_max)
