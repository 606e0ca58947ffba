"""The table of what has been measured so far."""

import sys
from collections.abc import Sequence

from bench.figures import Figures
from bench.orchestrators.arms import PREFERENCES, Arm
from bench.orchestrators.comparison import HEADER, gain, lines
from bench.orchestrators.journal import Journal, Results


def show(journal: Journal, figures: Figures) -> None:
    """Prints a row for every arm that has begun, and notes who earned more than whom."""
    sys.stdout.write(f"{HEADER}\n")
    for preference in PREFERENCES:
        results = journal.results([str(arm) for arm in Arm], preference)
        if any(results.values()):
            _show(preference, results, figures)


def _show(preference: str, results: Results, figures: Figures) -> None:
    for line in lines(preference, results, Arm.ALWAYS_EXPERT):
        sys.stdout.write(f"{line.row()}\n")
    figures.note(f"{preference}.tasks", len(next(iter(results.values()))))
    for other in _others(results):
        better = gain(preference, results, Arm.TRAINED, other)
        figures.note(f"{preference}.reward_over.{other}", vars(better))


def _others(results: Results) -> Sequence[str]:
    return [arm for arm in results if arm != Arm.TRAINED] if Arm.TRAINED in results else []
