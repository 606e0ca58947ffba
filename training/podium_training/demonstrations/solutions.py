"""The next action of a task's known solution, read off the prompt of the turn."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from podium_training.demonstrations.delegation import Delegation
from podium_training.tasks.task import Call, Task

# The line of the prompt that holds the task (services/orchestrator_inference, stateless layout).
PROBLEM = re.compile(r"^Problem: (.+)$", re.MULTILINE)


class NoDemonstration(ValueError):
    """Nothing is known to show here; the message says why."""


class Solutions:
    """Known solutions by question; with a delegation, some tasks are an expert's."""

    def __init__(self, tasks: Iterable[Task], delegation: Delegation | None = None) -> None:
        self._delegation = delegation
        self._tasks = {task.question: task for task in tasks if task.solution is not None}
        if not self._tasks:
            raise NoDemonstration("none of the tasks has a solution to show")

    def action(self, prompt: str, schema: Mapping[str, Any]) -> str:
        """The action as JSON text, valid under the action schema. Raises NoDemonstration.

        An answer is shown only after the calls that lead to it: whatever failed or is missing would
        teach to make it up. After an expert that failed comes the task's own solution.
        """
        task = self._task(prompt)
        orders = _argument_orders(schema)
        for call in self._way(task, prompt, orders):
            made = _in_order(call, orders.get(call.tool, ()))
            if _failed(call.tool, made, prompt):
                raise NoDemonstration(f"{call.tool} failed; nobody knows what leads on from there")
            if not _shown(call.tool, made, prompt):
                return _made(call.tool, made, orders)
        return _compact({"answer": _answer(task)})

    def expert_answer(self, conversation: str) -> str:
        """What an expert says that is asked a task. Raises NoDemonstration."""
        asked = (task for question, task in self._tasks.items() if question in conversation)
        task = max(asked, key=lambda each: len(each.question), default=None)
        if task is None:
            raise NoDemonstration(f"no task asks {conversation[-80:]!r}")
        return _answer(task)

    def _way(self, task: Task, prompt: str, offered: Iterable[str]) -> tuple[Call, ...]:
        delegation = self._delegation
        if delegation is None or delegation.tool not in offered:
            return task.solution or ()
        handed_over = delegation.hands_over(task, prompt) and not _failed(
            delegation.tool, {}, prompt
        )
        return (Call(delegation.tool, {}),) if handed_over else task.solution or ()

    def _task(self, prompt: str) -> Task:
        found = PROBLEM.search(prompt)
        task = self._tasks.get(found[1].strip()) if found else None
        if task is None:
            raise NoDemonstration(f"no task asks {found[1] if found else prompt[-80:]!r}")
        return task


def _answer(task: Task) -> str:
    expected = task.parameters["expected"]
    return ", ".join(expected) if isinstance(expected, list) else str(expected)


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


def _made(tool: str, arguments: Mapping[str, Any], offered: Iterable[str]) -> str:
    """The call as JSON. Raises NoDemonstration when it may not be made."""
    if tool not in offered:
        raise NoDemonstration(f"{tool} is not offered, and no other way is known")
    return _compact({"tool": tool, "arguments": arguments})


def _failed(tool: str, arguments: Mapping[str, Any], prompt: str) -> bool:
    """Whether the prompt lists the call among those that failed."""
    return f"{tool} {_compact(arguments)} -> error (" in prompt


def _shown(tool: str, arguments: Mapping[str, Any], prompt: str) -> bool:
    """Whether the prompt lists the call among those made, as `prompt_parts.call_text` writes it."""
    return f"{tool} {_compact(arguments)}" in prompt


def _compact(value: Mapping[str, Any]) -> str:
    """Without blanks, which vLLM's grammar forbids where it is told to."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
