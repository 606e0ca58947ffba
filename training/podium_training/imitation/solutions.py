"""The next action of a task's known solution, read off the prompt of the turn.

Where experts are offered, a task is handed to one of them whenever that promises a higher reward
under the weights and prices that the prompt states: what learns from it sees them obeyed.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

from podium_training.experts.pool import Pool
from podium_training.imitation.delegation import (
    Option,
    asked_ways,
    best,
    by_chance,
    is_clear,
    own_way,
    weights_in,
)
from podium_training.tasks.task import FIND_TOOLS, Call, Task

# Long enough to be another word when garbled, as small models garble names.
WORD = re.compile(r"[^\W\d_]{4,}")


def mistaken(call: Call, schemas: Mapping[str, Any], random: Random) -> Call | None:
    """The call with a word of one argument garbled; None where no argument has a free one."""
    texts = {
        name: value
        for name, value in call.arguments.items()
        if isinstance(value, str) and "enum" not in schemas.get(name, {}) and WORD.search(value)
    }
    if not texts:
        return None
    name = random.choice(sorted(texts))
    word = random.choice(WORD.findall(texts[name]))
    garbled = texts[name].replace(word, _garbled(word, random), 1)
    return Call(call.tool, call.arguments | {name: garbled}) if garbled != texts[name] else None


def _garbled(word: str, random: Random) -> str:
    """Its first letter, and the others begun elsewhere."""
    at = random.randrange(2, len(word))
    return word[0] + word[at:] + word[1:at]


# The line of the prompt that holds the task (services/orchestrator_inference, stateless layout).
PROBLEM = re.compile(r"^Problem: (.+)$", re.MULTILINE)

# By name, the schema of every argument.
Tools = Mapping[str, Mapping[str, Any]]


class NoDemonstration(ValueError):
    """The task has no demonstration; the message states why."""


class NoClearChoice(NoDemonstration):
    """Two ways are expected to earn nearly the same."""


class Solutions:
    """Known solutions by question, and the experts that tasks may be handed to."""

    def __init__(
        self,
        tasks: Iterable[Task],
        experts: Pool | None = None,
        margin: float = 0.0,
        mistakes: float = 0.0,
        decided: bool = True,
    ) -> None:
        """Margin: the share by which whom to ask has to earn more than all others.

        Mistakes: the share of calls that are garbled before they are made right. Undecided: whom to
        ask is left to chance, and the weights change nothing.
        """
        self._experts, self._margin, self._mistakes = experts, margin, mistakes
        self._decided = decided
        self._tasks = {task.question: task for task in tasks if task.solution is not None}
        if not self._tasks:
            raise NoDemonstration("none of the tasks has a solution to show")

    def knows(self, task: Task) -> bool:
        """Returns whether it has a solution, and a question that is found in a prompt again."""
        found = PROBLEM.search(f"Problem: {task.question}")
        is_found = found is not None and found[1].strip() == task.question
        return is_found and task.question in self._tasks

    def action(self, system: str, prompt: str, schema: Mapping[str, Any]) -> str:
        """The action as JSON text, valid under the action schema. Raises NoDemonstration.

        The system message lists the tools; the prompt is the user's, with the task.

        An answer is shown only after the calls that lead to it: whatever failed or is missing would
        teach to make it up. The expert's answer is the answer. After a mistake the call is made
        right: no other failure has a known way on.
        """
        task = self._task(prompt)
        tools = _tools(schema)
        if (asked := self._asked(task, tools, system, prompt)) is not None:
            answer = _result(asked, prompt)
            return _made(asked, tools) if answer is None else _compact({"answer": answer})
        for call in task.solution or ():
            made = Call(call.tool, _in_order(call, tools.get(call.tool, {})))
            if call.tool not in tools and FIND_TOOLS in tools:
                # Its name, in words, is what the tool is for.
                made = Call(FIND_TOOLS, {"query": call.tool.replace("_", " ")})
            if _failed(made, prompt):
                raise NoDemonstration(f"{call.tool} failed; nobody knows what leads on from there")
            if not _shown(made, prompt):
                wrong = self._mistake(made, tools, task)
                if wrong is not None and not _shown(wrong, prompt):
                    return _made(wrong, tools)
                if wrong is not None and not _failed(wrong, prompt):
                    raise NoDemonstration(f"the garbled call of {call.tool} did not fail")
                return _made(made, tools)
            if made.tool == FIND_TOOLS:
                raise NoDemonstration(f"{call.tool} was not found")
        return _compact({"answer": task.answer})

    def _asked(self, task: Task, tools: Tools, system: str, prompt: str) -> Call | None:
        pool = self._experts
        if pool is None or pool.tool not in tools:
            return None
        offered = _models(tools[pool.tool])
        ways = asked_ways(pool, offered, task.family, system)
        lacking = set(task.tools) - set(tools)
        if not lacking or FIND_TOOLS in tools:
            searches = len(lacking) or int(FIND_TOOLS in prompt)
            ways.insert(0, own_way(len(task.solution or ()), searches, system))
        if not ways:
            raise NoDemonstration(f"the prompt quotes no price of a model of {pool.tool}")
        weights = weights_in(prompt)
        if not self._decided:
            # The same in every turn.
            random = Random(f"{task.question} {weights}")  # noqa: S311 chance, not a secret
            return _asking(pool.tool, by_chance(ways, random))
        if self._margin and not is_clear(ways, weights, self._margin):
            raise NoClearChoice("two ways are expected to earn nearly the same")
        return _asking(pool.tool, best(ways, weights))

    def _mistake(self, call: Call, tools: Tools, task: Task) -> Call | None:
        random = Random(f"{task.question} {_text(call)}")  # noqa: S311 chance, not a secret
        if call.tool == FIND_TOOLS or random.random() >= self._mistakes:
            return None
        return mistaken(call, tools.get(call.tool, {}), random)

    def _task(self, prompt: str) -> Task:
        found = PROBLEM.search(prompt)
        task = self._tasks.get(found[1].strip()) if found else None
        if task is None:
            raise NoDemonstration(f"no task asks {found[1] if found else prompt[-80:]!r}")
        return task


def _asking(tool: str, chosen: Option) -> Call | None:
    return Call(tool, {"model": chosen.alias}) if chosen.alias else None


def _tools(schema: Mapping[str, Any]) -> Tools:
    """The arguments of each tool that may be called, in the order the grammar wants them."""
    tools: dict[str, Mapping[str, Any]] = {}
    for shape in schema.get("anyOf", (schema,)):
        properties = shape["properties"]
        if "tool" in properties:
            tools[properties["tool"]["const"]] = properties["arguments"].get("properties", {})
    return tools


def _models(arguments: Mapping[str, Any]) -> Sequence[str]:
    """Raises NoDemonstration for a tool without a choice of models."""
    models: Sequence[str] = arguments.get("model", {}).get("enum", ())
    if not models:
        raise NoDemonstration("the expert has no choice of models")
    return models


def _in_order(call: Call, order: Iterable[str]) -> dict[str, Any]:
    known = {name: call.arguments[name] for name in order if name in call.arguments}
    return known | call.arguments


def _made(call: Call, tools: Tools) -> str:
    if call.tool not in tools:
        raise NoDemonstration(f"{call.tool} is not offered, and no other way is known")
    return _compact({"tool": call.tool, "arguments": call.arguments})


def _failed(call: Call, prompt: str) -> bool:
    return f"{_text(call)} -> error (" in prompt


def _shown(call: Call, prompt: str) -> bool:
    return _text(call) in prompt


def _result(call: Call, prompt: str) -> str | None:
    if _failed(call, prompt):
        raise NoDemonstration(f"{call.tool} failed; nobody knows what leads on from there")
    _, found, after = prompt.partition(f"{_text(call)} -> ")
    return after.partition("\n")[0] if found else None


def _text(call: Call) -> str:
    return f"{call.tool} {_compact(call.arguments)}"


def _compact(value: Mapping[str, Any]) -> str:
    """Writes JSON without blanks, which the engine's grammar forbids."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
