"""Tool calls after OpenTelemetry's GenAI semantic conventions."""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.trace import Span, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from podium_kit.telemetry.content import note_call
from podium_kit.telemetry.spans import span


class ToolCallSpan:
    def __init__(self, current: Span) -> None:
        self._span = current

    def returned(self, key: str, arguments: str, result: str, failure: str) -> None:
        """The key of its effect, what it was given and gave, or the kind of its failure; "" is
        none."""
        self._span.set_attribute("gen_ai.tool.call.id", key)
        note_call(self._span, arguments, result)
        if failure:
            self._span.set_attribute("error.type", failure)
            self._span.set_status(Status(StatusCode.ERROR))


@contextmanager
def tool_call(tool: str) -> Iterator[ToolCallSpan]:
    attributes: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
    }
    with span("execute_tool", attributes) as current:
        current.update_name(f"execute_tool {tool}")
        yield ToolCallSpan(current)
