import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from builders.version_folders import write_version
from callers import make_identity
from orchestrator_inference.engine import replicas
from orchestrator_inference.engine.client import engine_client
from orchestrator_inference.engine.replicas import EngineReplica
from orchestrator_inference.errors import EngineUnreachable
from orchestrator_inference.versions.admission import AdmissionRules, VersionAdmission
from orchestrator_inference.versions.files import VerifiedFiles
from orchestrator_inference.versions.routing import VersionRouting
from podium_kit.policy_versions import (
    Alias,
    Aliases,
    CanaryPrompt,
    Format,
    Manifest,
    Unreadable,
    VersionStore,
)
from podium_kit.rpc.identity import acting_as
from unit.podium_kit.policy_versions.test_store import NAME, fill, make_manifest


class Replica:
    def __init__(self, url: str) -> None:
        self.url = url
        self.loaded: set[str] = set()
        self.away = self.wrong = self.keeps_everything = False
        self.asked = 0

    async def served(self) -> frozenset[str]:
        if self.away:
            raise EngineUnreachable(self.url, TimeoutError())
        return frozenset(self.loaded)

    async def load(self, name: str, folder: str) -> None:
        self.loaded.add(name)

    async def unload(self, name: str) -> None:
        if self.keeps_everything:
            raise EngineUnreachable(self.url, TimeoutError())
        self.loaded.discard(name)

    async def logprobs(self, name: str, prompts: Sequence[CanaryPrompt]) -> list[list[float]]:
        self.asked += 1
        return [[value - self.wrong for value in prompt.logprobs] for prompt in prompts]


class Meeting(Replica):
    def __init__(self, url: str, together: asyncio.Barrier) -> None:
        super().__init__(url)
        self.together = together

    async def served(self) -> frozenset[str]:
        await self.together.wait()
        return await super().served()

    async def logprobs(self, name: str, prompts: Sequence[CanaryPrompt]) -> list[list[float]]:
        await self.together.wait()
        return await super().logprobs(name, prompts)


def admission_of(root: Path, *engines: Replica, **rules: Any) -> VersionAdmission:
    store = VersionStore(root)
    write_version(store, NAME, Format.ADAPTER)

    async def adapters() -> list[EngineReplica]:
        return cast(list[EngineReplica], list(engines))

    async def merged() -> list[EngineReplica]:
        return []

    sides = {Format.ADAPTER: adapters, Format.MERGED: merged}
    return VersionAdmission(store, sides, AdmissionRules(str(root), **rules), {})


async def test_replicas_are_asked_at_once(tmp_path: Path) -> None:
    together = asyncio.Barrier(2)
    admission = admission_of(tmp_path, Meeting("a", together), Meeting("b", together))
    await admission.reconcile()
    assert admission.admitted == {NAME}


@pytest.mark.parametrize("limit", ["LISTING_TIMEOUT_S", "CANARY_TIMEOUT_S"])
async def test_an_engine_that_hangs_is_given_up_before_a_completion_would_be(
    limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, limit, 0)
    manifest = VersionStore(tmp_path).manifest(
        write_version(VersionStore(tmp_path), NAME, Format.ADAPTER)
    )
    # It accepts connections, and reads and answers nothing.
    with socket.create_server(("127.0.0.1", 0)) as engine:
        url = f"http://127.0.0.1:{engine.getsockname()[1]}/v1"
        async with engine_client(url, None, 1) as client:
            replica = EngineReplica(client, url, 3600)
            with pytest.raises(EngineUnreachable):
                if limit == "LISTING_TIMEOUT_S":
                    await replica.served()
                else:
                    await replica.logprobs(NAME, manifest.canary.prompts)


@pytest.mark.parametrize("keeps_everything", [False, True])
async def test_what_failed_is_tried_again_once_the_engine_restarted(
    keeps_everything: bool, tmp_path: Path
) -> None:
    replica = Replica("a")
    replica.wrong, replica.keeps_everything = True, keeps_everything
    admission = admission_of(tmp_path, replica)
    for _ in range(2):
        await admission.reconcile()
    assert (replica.asked, admission.admitted) == (1, frozenset())
    replica.away = True
    await admission.reconcile()
    # A merged version's engine comes back with it; others come back without.
    replica.away = replica.wrong = False
    await admission.reconcile()
    assert (replica.asked, admission.admitted) == (2, frozenset({NAME}))


async def test_an_engine_that_lost_what_passed_has_restarted(tmp_path: Path) -> None:
    replica = Replica("a")
    admission = admission_of(tmp_path, replica)
    await admission.reconcile()
    replica.wrong = True
    other = write_version(VersionStore(tmp_path), "policy-demo-v2", Format.ADAPTER)
    await admission.reconcile()
    assert admission.admitted == {NAME}
    replica.loaded.clear()
    replica.wrong = False
    await admission.reconcile()
    assert admission.admitted == {NAME, other}


def test_calls_are_counted_while_they_last(tmp_path: Path) -> None:
    aliases = Aliases(tmp_path)
    aliases.move(Alias.PROMOTED, NAME)
    routing = VersionRouting(aliases, lambda: frozenset({NAME}), dict)
    with (
        acting_as(make_identity()),
        routing.routed("") as promoted,
        routing.routed(NAME),
        routing.routed("anything"),
    ):
        assert promoted == NAME
        assert routing.in_use == {NAME: 2, "anything": 1}
    assert not routing.in_use


class AwayOnce(VersionStore):
    failed = False

    def verified(self, name: str) -> Manifest:
        if not self.failed:
            self.failed = True
            raise Unreadable(name, "the volume is away")
        return super().verified(name)


async def test_what_could_not_be_read_is_read_again(tmp_path: Path) -> None:
    store = AwayOnce(tmp_path)
    written = store.write(make_manifest(), fill)
    files = VerifiedFiles(store)
    with pytest.raises(Unreadable):
        await files.verified(NAME)
    assert await files.verified(NAME) == written
