"""Metrics of a run's steps: JSON lines in its output folder, and, shortened, in the store.

The trainer stores them with each version that it publishes, so that people see how it was learnt
without access to the machine that trained it.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path

from podium_kit.policy_versions.names import VersionName
from podium_kit.policy_versions.writing import replace_text

METRICS = "metrics.jsonl"
FOLDER = "metrics"
# A curve of more points is no clearer.
STEPS_MAX = 500
BYTES_MAX = 4 * 2**20

Metrics = dict[str, float]


class InvalidMetrics(ValueError):
    """A file that is not a run's metrics; the message says why."""


def read_metrics(path: Path) -> list[Metrics]:
    """Steps in order. A run that was killed repeats some steps: the later record counts.

    A last line without its end is still being written and left out. Raises InvalidMetrics.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidMetrics(f"{path} cannot be read: {error}") from error
    steps: dict[float, Metrics] = {}
    for number, line in enumerate(text[: text.rfind("\n") + 1].splitlines(), 1):
        try:
            found = json.loads(line)
            steps[found["step"]] = {name: float(value) for name, value in found.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidMetrics(f"{path}, line {number} is no step of a run") from error
    return [steps[step] for step in sorted(steps)]


def store_metrics(root: Path, run: str, steps: Sequence[Metrics]) -> None:
    """Replaces the run's steps in the store: at most STEPS_MAX, evenly spaced, with the last."""
    apart = max(1, math.ceil(len(steps) / STEPS_MAX))
    kept = steps[::-1][::apart][::-1]
    replace_text(_file(root, run), "".join(f"{json.dumps(step)}\n" for step in kept))


def stored_metrics(root: Path, name: str) -> list[Metrics]:
    """The steps of the version's run up to its own; none where the run stored none, or damaged."""
    version = VersionName.parse(name)
    path = _file(root, version.run)
    try:
        if path.stat().st_size > BYTES_MAX:
            return []
        steps = read_metrics(path)
    except (OSError, InvalidMetrics):
        return []
    return [step for step in steps if step["step"] <= version.number]


def _file(root: Path, run: str) -> Path:
    return root / FOLDER / f"{run}.jsonl"
