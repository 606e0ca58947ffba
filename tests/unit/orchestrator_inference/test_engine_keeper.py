"""Engines of merged versions: one that fails holds up no other."""

from pathlib import Path

import pytest

from orchestrator_inference.policy_engines.blueprint import Json
from orchestrator_inference.policy_engines.keeper import EngineKeeper
from podium_kit.policy_versions import VersionStore
from podium_kit.rpc.errors import FailedPrecondition


class Engines:
    """Those of a cluster in memory, which deletes all but one."""

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
