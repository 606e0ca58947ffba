"""A version that learnt from one tenant's episodes exists for that tenant alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from builders.version_folders import write_version
from callers import make_identity
from orchestrator_inference.errors import VersionNotServed
from orchestrator_inference.models import EngineModel
from orchestrator_inference.versions.routing import VersionRouting
from podium_kit.policy_versions import Alias, Aliases, Format, VersionStore
from podium_kit.rpc.identity import acting_as
from unit.orchestrator_inference.test_admission import Replica, admission_of
from unit.podium_kit.policy_versions.test_store import NAME

LEARNT = "policy-users-v3"


async def routing_of(root: Path) -> VersionRouting:
    admission = admission_of(root, Replica("a"))
    write_version(VersionStore(root), LEARNT, Format.ADAPTER, tenant="acme")
    await admission.reconcile()
    assert admission.admitted == {NAME, LEARNT}
    return VersionRouting(Aliases(root), lambda: admission.admitted, lambda: admission.owners)


@contextmanager
def of(tenant: str) -> Iterator[None]:
    with acting_as(make_identity(tenant)):
        yield


async def test_another_tenant_gets_the_error_of_an_unknown_version(tmp_path: Path) -> None:
    routing = await routing_of(tmp_path)
    with of("acme"), routing.routed(LEARNT) as asked:
        assert asked == LEARNT
    with of("globex"):
        with pytest.raises(VersionNotServed) as learnt, routing.routed(LEARNT):
            pass
        with pytest.raises(VersionNotServed) as unknown, routing.routed("policy-users-v4"):
            pass
        with routing.routed(NAME) as asked:
            assert asked == NAME
    assert learnt.value.message.replace("v3", "v4") == unknown.value.message


async def test_lists_show_it_to_its_tenant_alone_and_no_alias_means_it(tmp_path: Path) -> None:
    routing = await routing_of(tmp_path)
    served = [EngineModel("base"), EngineModel(NAME), EngineModel(LEARNT)]
    # It is the newest, and no candidate for everybody.
    assert Aliases(tmp_path).current(Alias.CANDIDATE) == NAME
    with of("acme"):
        listed = [model.name for model in routing.with_aliases(served)]
        assert listed == ["base", "candidate", NAME, LEARNT]
    with of("globex"):
        assert [model.name for model in routing.with_aliases(served)] == ["base", "candidate", NAME]
        assert routing.admitted == {NAME}
