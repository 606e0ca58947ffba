from collections.abc import Callable, Sequence
from statistics import fmean

from podium_training.gate.evaluation import Evaluated, Pair
from podium_training.gate.rules import Objective


def gains(pairs: Sequence[Pair], objective: Objective) -> list[float] | None:
    """One number per task, the mean of its seeds: those are alike, so they are no more evidence
    than the tasks are. None when any is unknown.
    """
    measure = MEASURES[objective]
    found: dict[str, list[float]] = {}
    for candidate, promoted in pairs:
        ours, theirs = measure(candidate), measure(promoted)
        if ours is None or theirs is None:
            return None
        found.setdefault(candidate.task_id, []).append(ours - theirs)
    return [fmean(of_task) for of_task in found.values()]


def _score(episode: Evaluated) -> float:
    # An answer that could not be verified earns nothing; how many there may be is a hard limit.
    return episode.score or 0.0


def _saved(episode: Evaluated) -> float | None:
    return None if episode.cost is None else -float(episode.cost)


def _well_formed(episode: Evaluated) -> float:
    return 1 - episode.malformed_actions / episode.actions if episode.actions else 0.0


def _tools_well(episode: Evaluated) -> float:
    return 1 - episode.failed_tool_calls / episode.tool_calls if episode.tool_calls else 1.0


MEASURES: dict[Objective, Callable[[Evaluated], float | None]] = {
    Objective.SCORE: _score,
    Objective.COST: _saved,
    Objective.LATENCY: lambda episode: -episode.latency_s,
    Objective.FORMAT: _well_formed,
    Objective.TOOL_ERRORS: _tools_well,
}
