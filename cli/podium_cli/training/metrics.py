"""The metrics of a run: a JSON object per step, and the last of a step counts."""

import json
from pathlib import Path

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
