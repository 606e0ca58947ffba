import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from podium_kit.verifiers import Verifier, load_verifier

# The platform's own, which no registry lists: it is offered where a toolset leaves tools out.
FIND_TOOLS = "find_tools"


class Split(StrEnum):
    """Tasks to learn from, and tasks that are only ever measured on."""

    TRAIN = "train"
    HELD_OUT = "held-out"


@dataclass(frozen=True)
class Call:
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Task:
    """A question for an episode, and the check of its answer."""

    id: str
    family: str
    split: Split
    question: str
    verifier: str
    """Name in the package `verifiers`."""
    parameters: dict[str, Any]
    """The verifier's parameters; they never reach a model."""
    solution: tuple[Call, ...] | None = None
    """Calls that lead to the answer, in order. Empty: none is needed. Unset: none are known."""
    replay_of: str = ""
    """A past episode whose record answers calls of tools with effects; unset for a new task."""

    @property
    def tools(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(call.tool for call in self.solution or ()))

    @property
    def answer(self) -> str:
        expected = self.parameters["expected"]
        return ", ".join(expected) if isinstance(expected, list) else str(expected)

    @property
    def judging_tools(self) -> tuple[str, ...]:
        look = self.parameters.get("look", {}) if self.verifier == "state" else {}
        return (look["tool"],) if look else ()

    def judge(self) -> Verifier:
        return load_verifier(self.verifier, self.parameters)

    def to_json(self) -> str:
        fields = asdict(self)
        if not self.replay_of:
            del fields["replay_of"]
        return json.dumps(fields, ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> "Task":
        try:
            fields = dict(json.loads(line))
            known = fields.pop("solution", None)
            calls = None if known is None else tuple(Call(**call) for call in known)
            task = cls(**fields | {"split": Split(fields["split"]), "solution": calls})
            task.judge()
        except (TypeError, ValueError, KeyError, RecursionError) as error:
            raise InvalidTask(f"not a task: {error}") from error
        return task


class InvalidTask(ValueError):
    """A task cannot be read or cannot be judged; the message says why."""
