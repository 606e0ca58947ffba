"""Latency, success and availability of tools, per tenant; measured over a rolling window."""

import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from podium_kit.metering import LatencyHistogram, Quantity, Usage
from podium_kit.rpc.errors import DomainError

SAMPLES_MAX = 500
WINDOW_S = 900.0

# Tool name and model alias; the alias is "" for the tool as a whole.
Subject = tuple[str, str]


@dataclass(frozen=True)
class Facts:
    """Measured behaviour of a tool, or of one model of an llm tool; usage is of all calls."""

    tool_name: str
    model_alias: str
    sample_count: int
    latencies: LatencyHistogram
    success_rate: float
    usage: tuple[Quantity, ...]
    unavailable: "Unavailability | None" = None


@dataclass(frozen=True)
class Unavailability:
    """The reason why the next call of a tool would fail, and for how many seconds."""

    reason: str
    for_s: float


@dataclass(frozen=True)
class _Sample:
    at: float
    latency_s: float
    usage: Usage
    succeeded: bool


class FactsBook:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: dict[str, dict[Subject, deque[_Sample]]] = {}
        self._unavailable: dict[tuple[str, Subject], tuple[str, float]] = {}
        self._changed: set[str] = set()

    def record(
        self,
        tenant: str,
        subject: Subject,
        latency_s: float,
        usage: Usage,
        *,
        succeeded: bool,
        unavailable: Unavailability | None = None,
    ) -> None:
        sample = _Sample(self._clock(), latency_s, usage, succeeded)
        for one in {subject, (subject[0], "")}:
            windows = self._samples.setdefault(tenant, {})
            windows.setdefault(one, deque(maxlen=SAMPLES_MAX)).append(sample)
        self._unavailable.pop((tenant, subject), None)
        if unavailable is not None:
            until = self._clock() + unavailable.for_s
            self._unavailable[tenant, subject] = unavailable.reason, until
        self._changed.add(tenant)

    def take_changes(self) -> dict[str, list[Facts]]:
        """All facts of every tenant with calls since the last time."""
        changed, self._changed = self._changed, set()
        return {tenant: self._facts_of(tenant) for tenant in changed}

    async def report(self, send: Callable[[str, list[Facts]], Awaitable[None]]) -> None:
        """Sends what changed, each tenant's by itself. Raises the last of what went wrong.

        What cannot be sent now is sent again after the next call.
        """
        failed: DomainError | None = None
        for tenant, changed in self.take_changes().items():
            try:
                await send(tenant, changed)
            except DomainError as error:
                failed = error
        if failed is not None:
            raise failed

    def _facts_of(self, tenant: str) -> list[Facts]:
        oldest = self._clock() - WINDOW_S
        windows = self._samples[tenant]
        for subject, samples in list(windows.items()):
            while samples and samples[0].at < oldest:
                samples.popleft()
            if not samples:
                del windows[subject]
                self._unavailable.pop((tenant, subject), None)
        return [
            _facts(subject, samples, self._unavailability(tenant, subject))
            for subject, samples in windows.items()
        ]

    def _unavailability(self, tenant: str, subject: Subject) -> Unavailability | None:
        reason, until = self._unavailable.get((tenant, subject), ("", 0.0))
        for_s = until - self._clock()
        if for_s > 0:
            return Unavailability(reason, for_s)
        self._unavailable.pop((tenant, subject), None)
        return None


def _facts(subject: Subject, samples: deque[_Sample], unavailable: Unavailability | None) -> Facts:
    return Facts(
        tool_name=subject[0],
        model_alias=subject[1],
        sample_count=len(samples),
        latencies=LatencyHistogram.of(sample.latency_s for sample in samples),
        success_rate=sum(sample.succeeded for sample in samples) / len(samples),
        usage=Usage.total([sample.usage for sample in samples]),
        unavailable=unavailable,
    )
