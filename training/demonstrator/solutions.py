"""The next action of a task's known solution, read off the prompt of the turn."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from tasksets.task import Call, Task

# The line of the prompt that holds the task (services/orchestrator_inference, stateless layout).
PROBLEM = re.compile(r"^Problem: (.+)$", re.MULTILINE)


class NoDemonstration(ValueError):
    """Nothing is known to show here; the message says why."""


class Solutions:
    """Known solutions by question."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._tasks = {task.question: task for task in tasks if task.solution}
        if not self._tasks:
            raise NoDemonstration("none of the tasks has a solution to show")

    def action(self, prompt: str, schema: Mapping[str, Any]) -> str:
        """The action as JSON text, valid under the action schema. Raises NoDemonstration.

        A call that the prompt shows as made is not made again, whatever came of it.
        """
        task = self._task(prompt)
        orders = _argument_orders(schema)
        for call in task.solution:
            made = _in_order(call, orders.get(call.tool, ()))
            if call.tool in orders and not _shown(call.tool, made, prompt):
                return _compact({"tool": call.tool, "arguments": made})
        return _compact({"answer": str(task.parameters["expected"])})

    def _task(self, prompt: str) -> Task:
        found = PROBLEM.search(prompt)
        task = self._tasks.get(found[1].strip()) if found else None
        if task is None:
            raise NoDemonstration(f"no task asks {found[1] if found else prompt[-80:]!r}")
        return task


def _argument_orders(schema: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Tools that may be called, and the order in which the grammar wants their arguments."""
    orders = {}
    for shape in schema.get("anyOf", (schema,)):
        properties = shape["properties"]
        if "tool" in properties:
            arguments = properties["arguments"].get("properties", {})
            orders[properties["tool"]["const"]] = tuple(arguments)
    return orders


def _in_order(call: Call, order: tuple[str, ...]) -> dict[str, Any]:
    known = {name: call.arguments[name] for name in order if name in call.arguments}
    return known | call.arguments


def _shown(tool: str, arguments: Mapping[str, Any], prompt: str) -> bool:
    """Whether the prompt lists the call among those made, as `prompt_parts.call_text` writes it."""
    return f"{tool} {_compact(arguments)}" in prompt


def _compact(value: Mapping[str, Any]) -> str:
    """Without blanks, which vLLM's grammar forbids where it is told to."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
