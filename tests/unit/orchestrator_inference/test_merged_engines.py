"""Clients of engines that have gone."""

import pytest

from orchestrator_inference.engine import merged
from orchestrator_inference.engine.merged import MergedEngines

BLUE, GREEN = "http://blue/v1", "http://green/v1"


@pytest.mark.parametrize(("timeout_s", "closed"), [(0, True), (3600, False)])
async def test_the_client_of_an_engine_that_has_gone_is_closed_once_no_call_is_under_way(
    timeout_s: float, closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = [BLUE]

    async def addresses(_: str) -> list[str]:
        return there

    monkeypatch.setattr(merged, "replica_urls", addresses)
    async with MergedEngines(["http://engines/v1"], None, timeout_s, 4) as engines:
        (blue,) = await engines.replicas()
        assert await engines.replicas() == [blue]
        assert not blue._client.is_closed
        there[:] = [GREEN]
        (green,) = await engines.replicas()
        assert (green.url, green._client.is_closed) == (GREEN, False)
        assert blue._client.is_closed == closed
    assert blue._client.is_closed
    assert green._client.is_closed
