from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator_builders import make_completion
from orchestrator_inference.engine import merged
from orchestrator_inference.engine.engine import ModelCall
from orchestrator_inference.engine.merged import MergedEngines
from orchestrator_inference.engine.pool import EnginePool
from orchestrator_inference.errors import EngineUnreachable, EngineUnwell, ModelNotFound
from orchestrator_inference.models import Completion, EngineModel
from orchestrator_inference.policy_engines.blueprint import Json
from orchestrator_inference.policy_engines.keeper import EngineKeeper
from podium_kit.policy_versions import VersionStore
from podium_kit.rpc.errors import DomainError, FailedPrecondition


@dataclass
class OneModel:
    name: str
    fault: DomainError | None = None

    async def model(self, name: str) -> EngineModel:
        if self.fault:
            raise self.fault
        if name not in ("", self.name):
            raise ModelNotFound(name, [self.name])
        return EngineModel(self.name)

    async def models(self) -> tuple[EngineModel, ...]:
        return (await self.model(""),)

    async def count_tokens(self, call: ModelCall) -> int:
        return 1

    async def complete(self, call: ModelCall) -> Completion:
        return make_completion(self.name)


AWAY = EngineUnreachable("main", ConnectionRefusedError())


async def test_a_version_is_found_while_the_main_engine_is_away() -> None:
    main, other = OneModel("base"), OneModel("policy-demo-v1")
    pool = EnginePool(main, lambda: [other])
    found = await pool.model(other.name)
    main.fault = AWAY
    assert await pool.model(other.name) == found
    with pytest.raises(EngineUnreachable):
        await pool.model("base")
    other.fault = AWAY
    with pytest.raises(EngineUnreachable):
        await pool.model(other.name)


async def test_a_replica_that_is_unwell_is_passed_over() -> None:
    unwell = OneModel("policy-demo-v1", EngineUnwell("first", 503, None))
    pool = EnginePool(OneModel("base"), lambda: [unwell, OneModel("policy-demo-v1")])
    for _ in range(2):
        assert await pool.model("policy-demo-v1") == EngineModel("policy-demo-v1")
    assert [each.name for each in await pool.models()] == ["base", "policy-demo-v1"]


class Engines:
    def __init__(self, *versions: str, kept: str) -> None:
        self.made = list(versions)
        self.kept = kept

    async def versions(self) -> dict[str, Json]:
        return {version: {} for version in self.made}

    async def bring(self, version: str, found: Json | None) -> None:
        raise AssertionError

    async def remove(self, version: str) -> None:
        if version == self.kept:
            raise FailedPrecondition("a webhook rejects it")
        self.made.remove(version)

    async def changed(self, timeout_s: float) -> None:
        raise AssertionError


async def test_an_engine_that_cannot_be_deleted_keeps_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"policy-demo-v{number}" for number in range(1, 6)]
    engines = Engines(*names, kept=names[2])
    keeper = EngineKeeper(VersionStore(tmp_path), engines, newest=1, retire_after_s=0)
    await keeper.reconcile()
    assert engines.made == [names[2]]
    assert f"engine of {names[2]} is not wanted, and stays: a webhook rejects it" in caplog.text
    engines.kept = ""
    await keeper.reconcile()
    assert engines.made == []


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
