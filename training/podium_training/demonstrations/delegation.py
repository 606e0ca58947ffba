"""Which tasks to hand to an expert: what a policy would do that knew its own strength.

Alone it is right so often in tasks of one kind, for next to nothing and soon; the expert is right
more often, dear and slow. Of two such episodes the paper's reward (section 3.2), weighed by the
preference, favours the one or the other.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from podium_training.gate import Evaluated
from podium_training.tasks.task import Task
from tool_registry.models import Preferences
from tool_registry.policies.presets import DEFAULT_POLICY, INSTRUCTIONS, PRESETS

EXPERT_RIGHT = 0.9
"""How often an expert is taken to be right."""

UNMEASURED = 0.5

Kind = tuple[str, ...]


class Delegation:
    """To which tool, and of which kinds of task, by what was measured of the learner."""

    def __init__(self, tool: str, tasks: Iterable[Task], measured: Sequence[Evaluated]) -> None:
        self.tool = tool
        self._right = _right(tasks, measured)

    def hands_over(self, task: Task, prompt: str) -> bool:
        """Whether the expert serves the preference of the prompt better.

        With each feature between 0 and 1 in its group, the learner earns p (outcome + compute +
        latency) and the expert its own p outcome, but for what both earn when both are right.
        """
        weights = _preference(prompt)
        alone = self._right.get(task.tools, UNMEASURED)
        return alone * (weights.outcome + weights.compute + weights.latency) <= (
            EXPERT_RIGHT * weights.outcome
        )


def _right(tasks: Iterable[Task], measured: Sequence[Evaluated]) -> dict[Kind, float]:
    """How likely the learner is right, by the tools a task takes; Laplace's rule of succession."""
    kinds = {task.id: task.tools for task in tasks}
    scores: dict[Kind, list[bool]] = defaultdict(list)
    for episode in measured:
        if episode.task_id in kinds:
            scores[kinds[episode.task_id]].append(episode.score == 1)
    return {kind: (sum(right) + 1) / (len(right) + 2) for kind, right in scores.items()}


def _preference(prompt: str) -> Preferences:
    """The preset whose instruction the prompt holds; the default has none."""
    for name, instruction in INSTRUCTIONS.items():
        if instruction and instruction in prompt:
            return PRESETS[name]
    return PRESETS[DEFAULT_POLICY]
