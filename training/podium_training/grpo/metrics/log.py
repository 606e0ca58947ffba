"""A run's metrics: JSON lines for `podium train watch|report`, TensorBoard's events, gauges."""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

# Not its SummaryWriter, which writes from another thread: a kill would lose lines.
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.summary import scalar

from podium_kit.policy_versions.metrics import METRICS
from podium_training.grpo.metrics.gauges import RunGauges

EVENTS = "tensorboard"


class MetricsLog:
    """Files in the run's output folder. A step that is taken again replaces the one before."""

    def __init__(self, output: Path) -> None:
        self._output = output
        _cut_torn_line(output / METRICS)
        self._events: EventsWriter | None = None
        self._gauges = RunGauges()

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        self._gauges.stepped(metrics)
        line = {"step": step, **metrics}
        with (self._output / METRICS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        events = self._open(step)
        for name, value in metrics.items():
            found = scalar(_tag(name), value)
            events.write_event(Event(wall_time=time.time(), step=step, summary=found))
        events.flush()

    def _open(self, step: int) -> EventsWriter:
        if self._events is None:
            folder = self._output / EVENTS
            folder.mkdir(parents=True, exist_ok=True)
            # Of two files of one second the later would overwrite the earlier.
            self._events = EventsWriter(str(folder / "events"), f".{step}")
            # Hides what a killed run wrote about this step and later ones.
            began = SessionLog(status=SessionLog.START)
            self._events.write_event(Event(wall_time=time.time(), step=step, session_log=began))
        return self._events


def _cut_torn_line(path: Path) -> None:
    """Removes what a kill, or a full disk, left of the last line: the next would continue it."""
    if path.exists():
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)


def _tag(name: str) -> str:
    first, _, rest = name.replace(" ", "_").partition("_")
    return f"{first}/{rest or first}"
