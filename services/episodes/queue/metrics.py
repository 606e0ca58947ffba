"""Gauges of the backlog: records for the topic, tasks, episodes and direct calls.

The server reports them, because it is there when every worker is gone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from opentelemetry.metrics import CallbackOptions, Observation

from podium_kit import telemetry

INTERVAL_S = 15.0
Ask = Callable[[], Awaitable[float]]


def oldest(*asks: Ask) -> Ask:
    async def ask() -> float:
        return max([await each() for each in asks])

    return ask


def total(*asks: Ask) -> Ask:
    async def ask() -> float:
        return sum([await each() for each in asks])

    return ask


class BacklogMetrics:
    """Caches the last poll, which a scrape reports; nothing before the first."""

    def __init__(self, outbox_age_s: Ask, backlog_age_s: Ask, open_work: Ask) -> None:
        self._asks = {"outbox": outbox_age_s, "backlog": backlog_age_s, "work": open_work}
        self._found: dict[str, float] = {}
        meter = telemetry.get_meter(__name__)
        meter.create_observable_gauge(
            "podium.stream.outbox.age",
            [self._reported("outbox")],
            unit="s",
            description="of the oldest record that its topic does not have",
        )
        meter.create_observable_gauge(
            "podium.episodes.backlog.age",
            [self._reported("backlog")],
            unit="s",
            description="of the oldest task, episode or direct call that no worker has taken",
        )
        meter.create_observable_gauge(
            "podium.episodes.work.open",
            [self._reported("work")],
            unit="{item}",
            description="episodes and direct calls that wait or run, and tasks that wait",
        )

    async def poll(self) -> None:
        """Reads the values anew; one that cannot be read is not reported until it can.

        The others are: workers are scaled by the queue while Temporal is away. Raises the first
        error once all were read.
        """
        polls = [self._poll(name, ask) for name, ask in self._asks.items()]
        for outcome in await asyncio.gather(*polls, return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def _poll(self, name: str, ask: Ask) -> None:
        self._found.pop(name, None)
        async with asyncio.timeout(INTERVAL_S):
            self._found[name] = await ask()

    def _reported(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def reported(_: CallbackOptions) -> Iterable[Observation]:
            return [Observation(self._found[name])] if name in self._found else []

        return reported
