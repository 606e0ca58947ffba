from collections.abc import Callable, Iterable, Sequence

import pytest
from opentelemetry.metrics import CallbackOptions, Observation

from episodes.queue.metrics import BacklogMetrics
from podium_kit import telemetry
from podium_kit.rpc.errors import DependencyAway

Reported = Callable[[CallbackOptions], Iterable[Observation]]


class Gauges:
    def __init__(self) -> None:
        self._reported: dict[str, Reported] = {}

    def create_observable_gauge(
        self, name: str, callbacks: Sequence[Reported], **_: object
    ) -> None:
        [self._reported[name]] = callbacks

    def scraped(self) -> dict[str, float]:
        return {
            name: each.value
            for name, reported in self._reported.items()
            for each in reported(CallbackOptions())
        }


async def test_what_is_queued_is_reported_while_temporal_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gauges, away = Gauges(), True

    async def age_s() -> float:
        if away:
            raise DependencyAway
        return 2.0

    async def size() -> float:
        return 7.0

    monkeypatch.setattr(telemetry, "get_meter", lambda _: gauges)
    standing = BacklogMetrics(size, age_s, size)
    with pytest.raises(DependencyAway):
        await standing.poll()
    queued = {"podium.stream.outbox.age": 7.0, "podium.episodes.work.open": 7.0}
    assert gauges.scraped() == queued
    away = False
    await standing.poll()
    assert gauges.scraped() == {**queued, "podium.episodes.backlog.age": 2.0}
