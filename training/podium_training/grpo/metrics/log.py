"""A run's metrics: JSON lines for `podium train watch|report`, TensorBoard's events, gauges, and
experiment trackers."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

# Not its SummaryWriter, which writes from another thread: a kill would lose lines.
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.summary import scalar

from podium_kit.policy_versions.metrics import METRICS
from podium_training.grpo.metrics.gauges import RunGauges
from podium_training.grpo.metrics.trackers import Sending

# By the name of TRL's GRPOTrainer, where it means the same.
TRL_NAMES = {
    "loss": "loss",
    "reward_mean": "reward",
    "kl_mean": "kl",
    "gradient_norm": "grad_norm",
    "clipped_share": "clip_ratio/region_mean",
    "drift_mean": "sampling/sampling_logp_difference/mean",
    "drift_max": "sampling/sampling_logp_difference/max",
}
EVENTS = "tensorboard"


class MetricsLog:
    """Files in the run's output folder. A step that is taken again replaces the one before."""

    def __init__(self, output: Path, trackers: Sequence[Sending] = ()) -> None:
        self._output = output
        self._trackers = trackers
        _cut_torn_line(output / METRICS)
        self._events: EventsWriter | None = None
        self._gauges = RunGauges()

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        self._gauges.stepped(metrics)
        line = {"step": step, **metrics}
        with (self._output / METRICS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        events = self._open(step)
        tagged = {_tag(name): value for name, value in metrics.items()}
        for tag, value in tagged.items():
            found = scalar(tag, value)
            events.write_event(Event(wall_time=time.time(), step=step, summary=found))
        events.flush()
        for tracker in self._trackers:
            tracker.log(step, tagged)

    def end(self) -> None:
        for tracker in self._trackers:
            tracker.end()

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
    if name in TRL_NAMES:
        return TRL_NAMES[name]
    first, _, rest = name.replace(" ", "_").partition("_")
    return f"{first}/{rest or first}"
