"""Every role against every RPC: the contract's scopes and the table of roles, put together."""

import pytest

from podium_kit.rpc.access import access_of, require_access
from podium_kit.rpc.errors import PermissionDenied
from podium_kit.rpc.identity import ROLE_SCOPES, Identity, Role, acting_as
from unit.house.test_rpc_access import contract_methods, method_path

METHODS = [method_path(method) for method in contract_methods()]
# What a role's holder may call besides what is open to every caller of a tenant.
WRITES_TOOLS = {"RegisterTool", "DeprecateTool", "DeleteTool", "PutDocuments", "DeleteDocuments"}
RUNS = {"StartEpisode", "CancelEpisode", "NextAction", "Invoke"}
APPROVES, READS_TRAJECTORIES = {"ApproveToolCall"}, {"GetTrajectory"}
SEES_MONEY = {"ListEntries", "ReportSpend"}
ADMINISTERS = {"CreatePolicy", "ActivatePolicy", "CreatePrices"}
POSTS_COSTS = {"Apply", "RecordToolFacts"}
LISTED = (
    WRITES_TOOLS | RUNS | APPROVES | READS_TRAJECTORIES | SEES_MONEY | ADMINISTERS | POSTS_COSTS
)
EXPECTED = {
    Role.PLATFORM_ADMIN: LISTED,
    Role.TENANT_ADMIN: LISTED - POSTS_COSTS,
    Role.TOOL_OWNER: WRITES_TOOLS | RUNS,
    Role.DEVELOPER: RUNS | READS_TRAJECTORIES | SEES_MONEY,
    Role.APPROVER: APPROVES,
    Role.AUDITOR: SEES_MONEY,
}


def allowed(identity: Identity, method: str) -> bool:
    with acting_as(identity):
        try:
            require_access(method)
        except PermissionDenied:
            return False
    return True


@pytest.mark.parametrize("role", Role)
def test_a_role_may_call_what_it_is_there_for_and_nothing_else(role: Role) -> None:
    identity = Identity("acme", "ada", ROLE_SCOPES[role])
    callable_ = {path.partition("/")[2] for path in METHODS if allowed(identity, path)}
    assert callable_ & LISTED == EXPECTED[role]


def test_whoever_has_no_scope_may_call_only_what_is_open_to_every_caller() -> None:
    nobody = Identity("acme", "ada", frozenset())
    open_to_all = {path for path in METHODS if not access_of(path).scopes}
    assert {path for path in METHODS if allowed(nobody, path)} == open_to_all


def test_no_administrative_rpc_is_open_to_every_caller() -> None:
    loose = [path for path in METHODS if access_of(path).administrative]
    assert loose
    assert not [path for path in loose if not access_of(path).scopes]
