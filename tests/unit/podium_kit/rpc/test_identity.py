import pytest

from callers import make_identity
from podium_kit.rpc.access import access_of, require_access
from podium_kit.rpc.errors import PermissionDenied, Unauthenticated
from podium_kit.rpc.identity import (
    ROLE_SCOPES,
    SERVICE_SCOPES,
    TENANT_SCOPES,
    Identity,
    Role,
    Scope,
    acting_as,
    current_identity,
    current_token,
    require_scope,
)
from unit.house.test_rpc_access import contract_methods, method_path

TENANT_ADMINS_OWN = set(Scope) - {Scope.PLATFORM_ADMIN, *SERVICE_SCOPES}


@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("held", Scope)
def test_scope_allows_itself_and_what_an_admin_implies(held: Scope, scope: Scope) -> None:
    implied = {Scope.PLATFORM_ADMIN: set(Scope), Scope.TENANT_ADMIN: TENANT_ADMINS_OWN}
    expected = scope in implied.get(held, {held})
    identity = make_identity(scopes=[held])
    assert identity.may(scope) is expected
    with acting_as(identity):
        if expected:
            assert require_scope(scope) == identity
            return
        with pytest.raises(PermissionDenied, match=f"lacks the scope {scope.value}"):
            require_scope(scope)


@pytest.mark.parametrize("scope", Scope)
def test_no_scope_allows_nothing(scope: Scope) -> None:
    assert not make_identity(scopes=[]).may(scope)


def test_unknown_scope_allows_nothing_else() -> None:
    identity = Identity("acme", "ada", frozenset({"admin", "platform", "*"}))
    assert not any(identity.may(scope) for scope in Scope)


def test_identity_ends_with_the_block_that_acts_as_it() -> None:
    outer, inner = make_identity(subject="outer"), make_identity(subject="inner")
    with acting_as(outer, "token of outer"):
        with acting_as(inner):
            assert current_identity() == inner
            assert current_token() is None
        assert current_identity() == outer
        assert current_token() == "token of outer"
    with pytest.raises(Unauthenticated, match="carries no identity"):
        current_identity()


def test_any_one_of_several_scopes_is_enough() -> None:
    with acting_as(make_identity(scopes=[Scope.SPEND_READ])):
        assert require_scope(Scope.TENANT_ADMIN, Scope.SPEND_READ).subject == "ada"
        with pytest.raises(PermissionDenied, match="lacks the scope ledger:write or tools:write"):
            require_scope(Scope.TOOLS_WRITE, Scope.LEDGER_WRITE)


@pytest.mark.parametrize(
    ("scopes", "fix"),
    [
        ({Scope.TOOLS_WRITE}, "an admin of the tenant can"),
        ({Scope.TOOLS_WRITE, Scope.LEDGER_WRITE}, "an admin of the tenant can"),
        ({Scope.PLATFORM_ADMIN}, "an admin of the platform can"),
        ({Scope.TOOLS_FOLLOW}, "no key has it"),
    ],
)
def test_a_missing_scope_names_whoever_can_give_it(scopes: set[Scope], fix: str) -> None:
    with acting_as(make_identity(scopes=[])), pytest.raises(PermissionDenied, match=fix):
        require_scope(*scopes)


def test_every_role_has_scopes_and_none_has_those_of_services() -> None:
    assert set(ROLE_SCOPES) == set(Role)
    for role, scopes in ROLE_SCOPES.items():
        assert scopes, role
        assert not SERVICE_SCOPES & scopes, role
        assert role is Role.PLATFORM_ADMIN or scopes <= TENANT_SCOPES, role


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
