"""One gate per tool and model: how many calls are in flight, and whether it is well."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from tool_adapters.calls.breaker import Breaker
from tool_adapters.models import ToolDefinition

GATES_KEPT = 10_000


@dataclass(frozen=True)
class Gate:
    """What calls of one tool share in this process."""

    slots: asyncio.Semaphore
    breaker: Breaker


class Gates:
    """Gates by tool version and model; the least recently used are forgotten."""

    def __init__(self) -> None:
        self._gates: OrderedDict[tuple[ToolDefinition, str], Gate] = OrderedDict()

    def of(self, tool: ToolDefinition, model_alias: str) -> Gate:
        """The gate of a tool, or of one model of an llm tool."""
        key = (tool, model_alias)
        gate = self._gates.pop(key, None)
        if gate is None:
            gate = Gate(asyncio.Semaphore(tool.limits.max_concurrency), Breaker())
        self._gates[key] = gate
        while len(self._gates) > GATES_KEPT:
            self._gates.popitem(last=False)
        return gate
