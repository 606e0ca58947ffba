"""A run's metrics: JSON lines for `podium train watch|report`, and TensorBoard's events."""

import json
from collections.abc import Mapping
from pathlib import Path

from tensorboardX import SummaryWriter

METRICS = "metrics.jsonl"
EVENTS = "tensorboard"


class MetricsLog:
    """Both in the run's output folder. A step that is taken again replaces the one before."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self._events: SummaryWriter | None = None

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """One step; `watch` shows it at once."""
        line = {"step": step, **metrics}
        with (self._output / METRICS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        events = self._open(step)
        for name, value in metrics.items():
            events.add_scalar(_tag(name), value, step)
        events.flush()

    def _open(self, step: int) -> SummaryWriter:
        if self._events is None:
            # Hides what a killed run wrote about this step and later ones.
            self._events = SummaryWriter(str(self._output / EVENTS), purge_step=step)
        return self._events


def _tag(name: str) -> str:
    """Grouped as TensorBoard groups: by what stands before the slash."""
    first, _, rest = name.replace(" ", "_").partition("_")
    return f"{first}/{rest or first}"
