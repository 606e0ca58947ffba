import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from safetensors.torch import load_file, save_file

from builders.policy_versions import let_through, make_base, publish_adapter
from orchestrator_inference.engine.client import engine_client
from orchestrator_inference.engine.replicas import EngineReplica
from orchestrator_inference.versions.admission import AdmissionRules, VersionAdmission
from orchestrator_inference.versions.catalogue import promote, roll_back
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium_kit.policy_versions import Alias, Aliases, Format, VersionStore
from podium_kit.policy_versions.reports import read_report
from podium_kit.rpc.errors import DomainError
from servers.vllm_server import BASE, AnswerAs, RejectToLoad, Serve, VllmServer

FAULTS = 100
TOLERANCE_NATS = 1e-3
GOOD = "policy-demo-v1"
BAD = "policy-demo-v2"
WEIGHTS = "adapter_model.safetensors"


@dataclass
class Side:
    store: VersionStore
    servers: list[VllmServer]
    admission: VersionAdmission

    @property
    def aliases(self) -> Aliases:
        return Aliases(self.store.root)


@pytest.fixture(scope="module")
def servers() -> Iterator[list[VllmServer]]:
    with ExitStack() as stack:
        yield [stack.enter_context(VllmServer(make_base())) for _ in range(2)]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("published")
    publish_adapter(root, 1)
    publish_adapter(root, 2)
    return root


@asynccontextmanager
async def serving(root: Path, servers: list[VllmServer], **rules: Any) -> AsyncIterator[Side]:
    for server in servers:
        server.faults.clear()
        server.loaded.clear()
    async with engine_client(servers[0].base_url, None, 4) as client:
        replicas = [EngineReplica(client, server.base_url, 10) for server in servers]

        async def adapters() -> list[EngineReplica]:
            return replicas

        async def merged() -> list[EngineReplica]:
            return []

        store = VersionStore(root)
        options = AdmissionRules(str(root), tolerance_nats=TOLERANCE_NATS, **rules)
        sides = {Format.ADAPTER: adapters, Format.MERGED: merged}
        yield Side(store, servers, VersionAdmission(store, sides, options, {}))


def copied(published: Path, root: Path, *names: str) -> Path:
    for name in names:
        (root / name).mkdir(parents=True)
        for file in (published / name).iterdir():
            (root / name / file.name).write_bytes(file.read_bytes())
    return root


async def test_a_published_version_is_loaded_everywhere_and_becomes_the_candidate(
    published: Path, servers: list[VllmServer], tmp_path: Path
) -> None:
    async with serving(copied(published, tmp_path, GOOD, BAD), servers) as side:
        await side.admission.reconcile()
        assert side.admission.admitted == {GOOD, BAD}
        assert all(server.loaded.keys() == {GOOD, BAD} for server in servers)
        assert side.aliases.current(Alias.CANDIDATE) == BAD
        assert side.aliases.current(Alias.PROMOTED) == ""


# What can go wrong with a version, each as it has gone wrong somewhere.
def wrong_adapter(side: Side, draw: random.Random) -> None:
    """Another version's weights lie in the folder, with digests that agree."""
    folder = side.store.path(BAD)
    (folder / WEIGHTS).write_bytes((side.store.path(GOOD) / WEIGHTS).read_bytes())
    agree(side.store, BAD)


def altered_weights(side: Side, draw: random.Random) -> None:
    """One value in one tensor is another, and the digests agree: a trainer's own bug."""
    path = side.store.path(BAD) / WEIGHTS
    tensors = load_file(path)
    name = draw.choice(sorted(key for key in tensors if "lora_B" in key))
    tensors[name] = tensors[name] * draw.choice([-1.0, 0.0, 3.0])
    save_file(tensors, path)
    agree(side.store, BAD)


def stale_name(side: Side, draw: random.Random) -> None:
    draw.choice(side.servers).faults[BAD] = Serve(draw.choice([GOOD, BASE]))


def other_answers(side: Side, draw: random.Random) -> None:
    draw.choice(side.servers).faults[BAD] = AnswerAs(draw.choice([GOOD, BASE]))


def cannot_load(side: Side, draw: random.Random) -> None:
    draw.choice(side.servers).faults[BAD] = RejectToLoad()


def corrupt_file(side: Side, draw: random.Random) -> None:
    files = sorted(side.store.path(BAD).iterdir())
    path = draw.choice([file for file in files if file.name != "manifest.json"])
    content = bytearray(path.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def half_written(side: Side, draw: random.Random) -> None:
    path = draw.choice(sorted(side.store.path(BAD).iterdir()))
    content = path.read_bytes()
    path.write_bytes(content[: draw.randrange(len(content))])


def missing_file(side: Side, draw: random.Random) -> None:
    draw.choice(sorted(side.store.path(BAD).iterdir())).unlink()


def foreign_manifest(side: Side, draw: random.Random) -> None:
    manifest = (side.store.path(GOOD) / "manifest.json").read_bytes()
    (side.store.path(BAD) / "manifest.json").write_bytes(manifest)


def worse_score(side: Side, draw: random.Random) -> None:
    """Only its evaluation is worse."""
    let_through(side.store, BAD, gain=draw.uniform(-0.5, 0.0))


FAULT_KINDS: tuple[Callable[[Side, random.Random], None], ...] = (
    wrong_adapter,
    altered_weights,
    stale_name,
    other_answers,
    cannot_load,
    corrupt_file,
    half_written,
    missing_file,
    foreign_manifest,
    worse_score,
)


def agree(store: VersionStore, name: str) -> None:
    found = store.manifest(name)
    folder, written = store.path(name), store.path(name).with_name("written")
    folder.rename(written)

    def fill(into: Path) -> None:
        for file in written.iterdir():
            if file.name != "manifest.json":
                (into / file.name).write_bytes(file.read_bytes())

    store.write(found, fill)


@pytest.mark.timeout(600)
async def test_of_a_hundred_bad_versions_none_is_promoted(
    published: Path, servers: list[VllmServer], tmp_path: Path
) -> None:
    draw = random.Random(0)
    promoted = []
    for number in range(FAULTS):
        fault = FAULT_KINDS[number % len(FAULT_KINDS)]
        root = copied(published, tmp_path / str(number), GOOD, BAD)
        async with serving(root, servers) as side:
            Aliases(root).move(Alias.PROMOTED, GOOD)
            # The gate would let it through: all faults but a worse score are the engines' to find.
            let_through(side.store, BAD)
            fault(side, draw)
            await side.admission.reconcile()
            assert GOOD in side.admission.admitted, fault.__name__
            assert (BAD in side.admission.admitted) == (fault is worse_score), fault.__name__
            with pytest.raises(DomainError):
                promote(side.store, BAD)
            promoted.append(Aliases(root).current(Alias.PROMOTED))
    assert promoted == [GOOD] * FAULTS


async def test_without_a_fault_the_same_version_is_promoted_and_rolled_back(
    published: Path, servers: list[VllmServer], tmp_path: Path
) -> None:
    async with serving(copied(published, tmp_path, GOOD, BAD), servers) as side:
        side.aliases.move(Alias.PROMOTED, GOOD)
        let_through(side.store, BAD)
        await side.admission.reconcile()
        promote(side.store, BAD)
        assert side.aliases.current(Alias.PROMOTED) == BAD
        assert roll_back(side.store, BAD) == GOOD
        assert side.aliases.current(Alias.PROMOTED) == GOOD


async def test_a_version_altered_after_it_was_admitted_is_withdrawn_and_unloaded(
    published: Path, servers: list[VllmServer], tmp_path: Path
) -> None:
    async with serving(copied(published, tmp_path, GOOD, BAD), servers) as side:
        await side.admission.reconcile()
        corrupt_file(side, random.Random(1))
        await side.admission.reconcile()
        assert side.admission.admitted == {GOOD}
        assert all(BAD not in server.loaded for server in servers)
        assert side.aliases.current(Alias.CANDIDATE) == GOOD
        report = read_report(tmp_path, BAD)
        assert report is not None
        assert not report.ready
        assert "is not what was written" in report.faults[0]


async def test_a_replica_that_lost_its_adapters_is_brought_back(
    published: Path, servers: list[VllmServer], tmp_path: Path
) -> None:
    async with serving(copied(published, tmp_path, GOOD), servers) as side:
        await side.admission.reconcile()
        servers[1].loaded.clear()
        await side.admission.reconcile()
        assert GOOD in servers[1].loaded
        assert side.admission.admitted == {GOOD}


async def test_a_version_survives_the_loss_of_a_replica(
    published: Path, servers: list[VllmServer], tmp_path: Path
) -> None:
    with VllmServer(make_base()) as short_lived:
        root = copied(published, tmp_path, GOOD)
        async with serving(root, [servers[0], short_lived]) as side:
            await side.admission.reconcile()
            short_lived.__exit__()
            await side.admission.reconcile()
            assert side.admission.admitted == {GOOD}


async def test_a_wrong_replica_that_cannot_unload_keeps_a_version_from_everybody(
    published: Path, servers: list[VllmServer], tmp_path: Path
) -> None:
    async with serving(copied(published, tmp_path, GOOD), servers, quorum=0.5) as side:
        servers[0].faults[GOOD] = Serve(BASE)
        servers[0].keeps_everything = True
        try:
            await side.admission.reconcile()
            assert side.admission.admitted == frozenset()
        finally:
            servers[0].keeps_everything = False
        await side.admission.reconcile()
        assert side.admission.admitted == {GOOD}
        assert GOOD not in servers[0].loaded


async def test_a_configured_quorum_is_enough(
    published: Path, servers: list[VllmServer], tmp_path: Path
) -> None:
    root = copied(published, tmp_path, GOOD)
    async with serving(root, servers, quorum=0.5) as side:
        servers[0].faults[GOOD] = RejectToLoad()
        await side.admission.reconcile()
        assert side.admission.admitted == {GOOD}
        report = read_report(root, GOOD)
        assert report is not None
        assert (report.replicas_ready, report.replicas) == (1, 2)


async def test_an_old_unused_version_is_unloaded(
    published: Path, servers: list[VllmServer], tmp_path: Path
) -> None:
    root = copied(published, tmp_path, GOOD)
    async with serving(root, servers, kept=1, retire_after_s=0) as side:
        await side.admission.reconcile()
        assert side.admission.admitted == {GOOD}
        for number in (3, 4):
            publish_adapter(root, number)
            await side.admission.reconcile()
        # The round after the candidate has moved.
        await side.admission.reconcile()
        # The candidate before stays, to go back to.
        assert side.admission.admitted == {"policy-demo-v3", "policy-demo-v4"}
        assert all(GOOD not in server.loaded for server in servers)


async def test_a_version_that_a_policy_pins_stays_loaded_however_old(
    published: Path, servers: list[VllmServer], tmp_path: Path
) -> None:
    root = copied(published, tmp_path, GOOD)
    Aliases(root).pin("acme", "users", [GOOD])
    async with serving(root, servers, kept=1, retire_after_s=0) as side:
        for number in (3, 4, 5):
            publish_adapter(root, number)
            await side.admission.reconcile()
        await side.admission.reconcile()
        assert GOOD in side.admission.admitted
        Aliases(root).pin("acme", "users", ["policy-demo-v5"])
        await side.admission.reconcile()
        assert GOOD not in side.admission.admitted


def make_request(model: str = "") -> pb.NextActionRequest:
    return pb.NextActionRequest(key="e/1/model/0", model=model, task="How much is 6 times 7?")


async def listed(stub: Any) -> list[str]:
    reply = await stub.ListModels(pb.ListModelsRequest())
    return [model.name for model in reply.models]


async def admitted(root: Path, name: str) -> None:
    while True:
        if (report := read_report(root, name)) is not None and report.ready:
            return
        await asyncio.sleep(0.01)


async def test_calls_say_which_version_answered_and_follow_the_aliases(
    published: Path, servers: list[VllmServer], tmp_path: Path, start_service: Any
) -> None:
    root = copied(published, tmp_path / "store", GOOD)
    async with serving(root, servers) as side:
        stub = await start_service(
            servers[0].base_url,
            policy_store=root,
            publish_check_s=0.1,
            canary_tolerance_nats=TOLERANCE_NATS,
        )
        await admitted(root, GOOD)
        assert (await stub.NextAction(make_request())).model_version == BASE
        assert (await stub.NextAction(make_request("candidate"))).model_version == GOOD
        assert await listed(stub) == [BASE, "candidate", GOOD]
        side.aliases.move(Alias.PROMOTED, GOOD)
        assert (await stub.NextAction(make_request())).model_version == GOOD
        copied(published, root, BAD)
        await admitted(root, BAD)
        let_through(side.store, BAD)
        promote(side.store, BAD)
        assert (await stub.NextAction(make_request())).model_version == BAD
        roll_back(side.store, BAD)
        assert (await stub.NextAction(make_request())).model_version == GOOD


async def test_a_version_is_listed_as_soon_as_it_is_admitted(
    published: Path, servers: list[VllmServer], tmp_path: Path, start_service: Any
) -> None:
    (root := tmp_path / "store").mkdir()
    servers[0].loaded.clear()
    servers[0].faults.clear()
    stub = await start_service(
        servers[0].base_url,
        policy_store=root,
        publish_check_s=0.1,
        canary_tolerance_nats=TOLERANCE_NATS,
    )
    assert await listed(stub) == [BASE]  # remembered for a while
    copied(published, root, GOOD)
    await admitted(root, GOOD)
    assert GOOD in await listed(stub)


async def test_a_version_that_is_not_admitted_is_rejected_before_it_reaches_an_engine(
    published: Path, servers: list[VllmServer], tmp_path: Path, start_service: Any
) -> None:
    root = copied(published, tmp_path / "store", GOOD, BAD)
    async with serving(root, servers) as side:
        corrupt_file(side, random.Random(2))
        stub = await start_service(servers[0].base_url, policy_store=root, publish_check_s=0.1)
        await admitted(root, GOOD)
        servers[0].answered.clear()
        for model in (BAD, "policy-demo-v9", "promoted"):
            with pytest.raises(grpc.aio.AioRpcError) as rejected:
                await stub.NextAction(make_request(model))
            assert rejected.value.code() is grpc.StatusCode.UNAVAILABLE
        assert servers[0].answered == []


async def test_an_answer_of_another_version_is_not_used(
    published: Path, servers: list[VllmServer], tmp_path: Path, start_service: Any
) -> None:
    root = copied(published, tmp_path / "store", GOOD)
    async with serving(root, servers):
        stub = await start_service(servers[0].base_url, policy_store=root, publish_check_s=0.1)
        await admitted(root, GOOD)
        servers[0].faults[GOOD] = AnswerAs(BASE)
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await stub.NextAction(make_request(GOOD))
        assert "base answered where policy-demo-v1 was asked" in str(rejected.value.details())
