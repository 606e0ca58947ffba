"""Gauges for alerts while a run trains: its progress, and its direction."""

import time
from collections.abc import Iterable, Mapping

from opentelemetry.metrics import CallbackOptions, Observation

from podium_kit import telemetry


class RunGauges:
    def __init__(self) -> None:
        self._moved_at = time.monotonic()
        meter = telemetry.get_meter(__name__)
        self._drift = meter.create_gauge(
            "podium.training.drift", "{nat}", "mean difference a token between server and trainer"
        )
        self._skipped = meter.create_counter(
            "podium.training.skipped_steps", "{step}", "steps whose loss or gradient was not finite"
        )
        # An alert sees what is added to 0, and would miss a series that begins at 1.
        self._skipped.add(0)
        meter.create_observable_gauge(
            "podium.training.step.age",
            [self._age],
            unit="s",
            description="since the last step, or since the start",
        )

    def stepped(self, metrics: Mapping[str, float]) -> None:
        self._moved_at = time.monotonic()
        self._skipped.add(int(not metrics.get("applied", 1.0)))
        if "drift_mean" in metrics:
            self._drift.set(metrics["drift_mean"])

    def _age(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(time.monotonic() - self._moved_at)]
