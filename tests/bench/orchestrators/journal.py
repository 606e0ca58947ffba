import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from podium_evaluation.results.trials import JUDGED, UNJUDGED, TrialResult
from podium_training.gate import Evaluated
from podium_training.tasks.task import Task

Results = Mapping[str, Sequence[TrialResult]]
"""Trials by arm, in the order of the tasks."""


class Journal:
    """A file that begins with the question; another question starts it over."""

    def __init__(self, path: Path, asked: Mapping[str, Any]) -> None:
        self._path = path
        self._found: dict[tuple[str, str], dict[str, Evaluated]] = {}
        head = json.dumps(asked)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        if lines[:1] != [head]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{head}\n", encoding="utf-8")
        for line in lines[1:] if lines[:1] == [head] else []:
            entry = json.loads(line)
            self._keep(entry["arm"], entry["preference"], Evaluated(**entry["episode"]))

    def add(self, arm: str, preference: str, episode: Evaluated) -> None:
        entry = {"arm": arm, "preference": preference, "episode": episode.model_dump(mode="json")}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(entry)}\n")
        self._keep(arm, preference, episode)

    def has(self, arm: str, preference: str, task_id: str) -> bool:
        return task_id in self._found.get((arm, preference), {})

    def results(self, arms: Sequence[str], preference: str, tasks: Sequence[Task]) -> Results:
        """The arms that have begun, on the tasks that all of those have done."""
        done = {
            arm: self._found[arm, preference] for arm in arms if (arm, preference) in self._found
        }
        common = [task for task in tasks if all(task.id in found for found in done.values())]
        return {
            arm: [_trial(arm, task, episodes[task.id]) for task in common]
            for arm, episodes in done.items()
        }

    def _keep(self, arm: str, preference: str, episode: Evaluated) -> None:
        self._found.setdefault((arm, preference), {})[episode.task_id] = episode


def _trial(arm: str, task: Task, episode: Evaluated) -> TrialResult:
    return TrialResult(
        arm=arm,
        item_id=task.id,
        family=task.family,
        question=task.question,
        repeat=0,
        episode_id="",
        state=UNJUDGED if episode.score is None else JUDGED,
        stop_reason="",
        score=episode.score,
        explanation="",
        cost=episode.cost,
        orchestrator_cost=episode.orchestrator_cost,
        judge_cost=None,
        simulator_cost=None,
        latency_s=episode.latency_s,
        turns=episode.actions,
        tool_calls=episode.tool_calls,
        calls=episode.calls,
    )
