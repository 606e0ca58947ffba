from dataclasses import dataclass


@dataclass(frozen=True)
class EvaluationRun:
    """A run in Temporal. Small: suite, arms and trials are the platform's."""

    evaluation_id: str
    trial_count: int
    at_once: int
    starts_per_minute: int = 0
    """0: no limit."""
    first: int = 0
    """Place of the first trial that is not known to be over."""


@dataclass(frozen=True)
class TrialsOver:
    """The result of an activity; `stopped` where no other trial is to be started."""

    stopped: bool
