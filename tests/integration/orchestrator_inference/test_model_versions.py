from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

from builders.evaluations import evaluated
from callers import client_channel, make_identity, make_key_pair, write_verify_keys
from orchestrator_inference.server import VERSIONS_SERVICE_NAME
from orchestrator_inference.versions.catalogue import VersionCatalogue
from orchestrator_inference.versions.servicer import ModelVersionServicer
from podium.orchestrator.v1 import model_version_service_pb2 as pb
from podium.orchestrator.v1 import model_version_service_pb2_grpc as rpc
from podium_kit.policy_versions import Alias, Aliases, VersionStore
from podium_kit.policy_versions.metrics import STEPS_MAX, store_metrics
from podium_kit.policy_versions.reports import Report, write_report
from podium_kit.rpc.identity import Scope
from podium_kit.rpc.server import Service, running_server
from podium_kit.rpc.settings import ServerSettings
from podium_training.gate import GateRules, decide, write_decision
from unit.podium_kit.policy_versions.test_store import fill, make_manifest

OLD, NEW, NEWEST = "policy-demo-v9", "policy-demo-v10", "policy-demo-v11"


@pytest.fixture
def store(tmp_path: Path) -> VersionStore:
    store = VersionStore(tmp_path / "store")
    for name in (OLD, NEW, NEWEST):
        store.write(make_manifest(name), fill)
    for name in (OLD, NEW):
        report(store, name)
    Aliases(store.root).move(Alias.PROMOTED, OLD)
    return store


@pytest_asyncio.fixture
async def versions(store: VersionStore, tmp_path: Path) -> AsyncIterator[Any]:
    async with serving(store.root, tmp_path) as stub:
        yield stub


@asynccontextmanager
async def serving(
    root: Path | None, folder: Path, scope: Scope = Scope.PLATFORM_ADMIN
) -> AsyncIterator[Any]:
    pair = make_key_pair()
    keys_file = write_verify_keys(folder / "keys.json", [pair])
    settings = ServerSettings(port=0, verify_keys_file=keys_file, drain_grace_s=0)
    service = Service(
        rpc.add_ModelVersionServiceServicer_to_server,
        ModelVersionServicer(VersionCatalogue(root)),
        VERSIONS_SERVICE_NAME,
    )
    async with (
        running_server(settings, [service], {}) as port,
        client_channel(port, make_identity(scopes=[scope]), pair) as channel,
    ):
        yield rpc.ModelVersionServiceStub(channel)


def report(store: VersionStore, name: str, *faults: str) -> None:
    ready = 2 - len(faults)
    write_report(
        store.root,
        Report(name=name, ready=not faults, replicas_ready=ready, replicas=2, faults=faults),
    )


def judge(store: VersionStore, name: str, gain: float = 0.5, against: str = OLD) -> None:
    pairs = [
        (evaluated(task, name, 0.5 + gain), evaluated(task, against, 0.5)) for task in range(40)
    ]
    write_decision(store.root, decide(name, against, pairs, GateRules()))


async def rejection(call: Any) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await call
    return f"{rejected.value.code().name}: {rejected.value.details()}"


async def test_a_better_version_is_promoted_once_and_rolled_back_once(
    store: VersionStore, versions: Any
) -> None:
    judge(store, NEW)
    for previous in (OLD, NEW):
        reply = await versions.PromoteModelVersion(pb.PromoteModelVersionRequest(name=NEW))
        assert (reply.version.name, reply.previous) == (NEW, previous)
        assert list(reply.version.aliases) == ["promoted"]
    back = pb.RollBackModelVersionRequest(name=NEW)
    assert (await versions.RollBackModelVersion(back)).version.name == OLD
    assert f"{NEW} is not promoted: {OLD} is" in await rejection(
        versions.RollBackModelVersion(back)
    )
    assert Aliases(store.root).current(Alias.PROMOTED) == OLD


async def test_what_is_not_served_or_not_let_through_is_not_promoted(
    store: VersionStore, versions: Any
) -> None:
    async def promoting(name: str) -> str:
        request = pb.PromoteModelVersionRequest(name=name)
        return await rejection(versions.PromoteModelVersion(request))

    assert "no engine has reported it" in await promoting(NEWEST)
    assert "no gate has decided" in await promoting(NEW)
    judge(store, NEW, gain=-0.25)
    assert "the gate says keep" in await promoting(NEW)
    judge(store, NEW, against=NEWEST)
    assert f"compared with {NEWEST}, but {OLD} is promoted now" in await promoting(NEW)
    judge(store, NEW)
    report(store, NEW, "canary differs")
    assert "it is not served: canary differs" in await promoting(NEW)
    assert "INVALID_ARGUMENT" in await promoting("../promoted")
    assert "NOT_FOUND" in await promoting("policy-demo-v99")
    assert Aliases(store.root).current(Alias.PROMOTED) == OLD


async def test_versions_are_listed_in_their_order_with_what_is_wrong_with_them(
    store: VersionStore, versions: Any
) -> None:
    judge(store, NEW, gain=-0.25)
    (store.path(NEWEST) / "manifest.json").write_text("{")
    first = await versions.ListModelVersions(pb.ListModelVersionsRequest(page_size=2))
    rest = await versions.ListModelVersions(
        pb.ListModelVersionsRequest(page_size=2, page_token=first.next_page_token)
    )
    old, new, newest = list(first.versions) + list(rest.versions)
    assert [each.name for each in (old, new, newest)] == [OLD, NEW, NEWEST]
    assert (old.served, old.replica_ready_count, old.step) == (True, 2, 1)
    assert (new.gate_verdict, new.gate_compared_with) == (pb.GATE_VERDICT_KEEP, OLD)
    assert newest.gate_verdict == pb.GATE_VERDICT_UNSPECIFIED
    assert "manifest is damaged" in newest.faults[0]
    assert not newest.HasField("step")


async def test_only_who_runs_the_platform_sees_and_moves_versions(
    store: VersionStore, tmp_path: Path
) -> None:
    async with serving(store.root, tmp_path, Scope.TENANT_ADMIN) as stub:
        for call in (
            stub.ListModelVersions(pb.ListModelVersionsRequest()),
            stub.PromoteModelVersion(pb.PromoteModelVersionRequest(name=NEW)),
            stub.RollBackModelVersion(pb.RollBackModelVersionRequest(name=OLD)),
        ):
            assert "PERMISSION_DENIED" in await rejection(call)


async def test_without_a_store_the_error_names_the_fix(tmp_path: Path) -> None:
    async with serving(None, tmp_path) as stub:
        error = await rejection(stub.ListModelVersions(pb.ListModelVersionsRequest()))
    assert "ORCHESTRATOR_INFERENCE_POLICY_STORE" in error


async def test_the_numbers_behind_a_verdict_are_shown(store: VersionStore, versions: Any) -> None:
    judge(store, NEW)
    reply = await versions.GetModelVersion(pb.GetModelVersionRequest(name=NEW))
    assert (reply.decision.look, reply.decision.pair_count) == (1, 40)
    (gain,) = reply.decision.gains
    assert (gain.measure, gain.mean, gain.lower) == ("score", 0.5, 0.5)
    assert reply.decision.rules["delta"] == "0.02"
    assert "cost_max" not in reply.decision.rules
    assert set(reply.decision.candidate_figures) == set(reply.decision.promoted_figures)
    reply = await versions.GetModelVersion(pb.GetModelVersionRequest(name=NEWEST))
    assert not reply.HasField("decision")


async def test_the_steps_that_led_to_a_version_are_listed(
    store: VersionStore, versions: Any
) -> None:
    async def steps(name: str) -> list[int]:
        reply = await versions.ListTrainingSteps(pb.ListTrainingStepsRequest(name=name))
        assert all(each.figures["calls <b>"] == 0.5 for each in reply.steps)
        return [each.step for each in reply.steps]

    assert await steps(NEW) == []
    store_metrics(store.root, "demo", [{"step": n, "calls <b>": 0.5} for n in range(1, 12)])
    assert await steps(OLD) == list(range(1, 10))
    assert await steps(NEWEST) == list(range(1, 12))
    (store.root / "metrics" / "demo.jsonl").write_text("no metrics\n")
    assert await steps(NEWEST) == []
    request = pb.ListTrainingStepsRequest(name="policy-demo-v99")
    assert "NOT_FOUND" in await rejection(versions.ListTrainingSteps(request))


async def test_a_long_run_is_a_curve_of_bounded_length(store: VersionStore, versions: Any) -> None:
    store.write(make_manifest("policy-long-v20000"), fill)
    store_metrics(store.root, "long", [{"step": n} for n in range(1, 20_001)])
    request = pb.ListTrainingStepsRequest(name="policy-long-v20000")
    reply = await versions.ListTrainingSteps(request)
    assert len(reply.steps) <= STEPS_MAX
    assert reply.steps[-1].step == 20_000


async def test_versions_are_seen_with_the_scope_and_moved_by_platform_admins_alone(
    store: VersionStore, tmp_path: Path
) -> None:
    judge(store, NEW)
    async with serving(store.root, tmp_path, Scope.TRAINING_READ) as stub:
        listed = await stub.ListModelVersions(pb.ListModelVersionsRequest())
        assert len(listed.versions) == 3
        promoting = stub.PromoteModelVersion(pb.PromoteModelVersionRequest(name=NEW))
        assert "lacks the scope platform:admin" in await rejection(promoting)
    async with serving(store.root, tmp_path, Scope.TENANT_ADMIN) as stub:
        listing = stub.ListModelVersions(pb.ListModelVersionsRequest())
        assert "lacks the scope training:read" in await rejection(listing)


async def test_a_version_of_one_tenant_is_seen_by_it_and_operators_and_never_given_to_all(
    store: VersionStore, tmp_path: Path
) -> None:
    name = "policy-users-v1"
    store.write(make_manifest(name).model_copy(update={"tenant": "globex"}), fill)
    report(store, name)
    judge(store, name)

    async def listed(stub: Any) -> dict[str, str]:
        reply = await stub.ListModelVersions(pb.ListModelVersionsRequest())
        return {version.name: version.tenant for version in reply.versions}

    async with serving(store.root, tmp_path) as operator:
        assert (await listed(operator))[name] == "globex"
        promoting = operator.PromoteModelVersion(pb.PromoteModelVersionRequest(name=name))
        assert "learnt from the episodes of tenant globex" in await rejection(promoting)
    async with serving(store.root, tmp_path, Scope.TRAINING_READ) as other:
        assert (await listed(other)).keys() == {OLD, NEW, NEWEST}
        getting = other.GetModelVersion(pb.GetModelVersionRequest(name=name))
        unknown = other.GetModelVersion(pb.GetModelVersionRequest(name="policy-users-v2"))
        assert (await rejection(getting)).replace("v1", "v2") == await rejection(unknown)
