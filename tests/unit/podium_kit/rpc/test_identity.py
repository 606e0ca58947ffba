"""Identities: scopes, roles, and the tokens that carry them."""

import time
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callers import KeyPair, make_identity, make_key_pair
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
from podium_kit.rpc.tokens import TokenSigner, TokenVerifier
from unit.house.test_rpc_access import contract_methods, method_path

TENANT_ADMINS_OWN = set(Scope) - {Scope.PLATFORM_ADMIN, Scope.TRAINING_READ, *SERVICE_SCOPES}


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
        ({Scope.TRAINING_READ}, "an admin of the platform can"),
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
        # A tenant's admin grants the others; these two reach beyond a tenant.
        beyond = role in {Role.PLATFORM_ADMIN, Role.ML_ENGINEER}
        assert beyond is not (scopes <= TENANT_SCOPES), role


METHODS = [method_path(method) for method in contract_methods()]
# What a role's holder may call besides what is open to every caller of a tenant.
WRITES_TOOLS = {"RegisterTool", "DeprecateTool", "DeleteTool", "PutDocuments", "DeleteDocuments"}
RUNS = {"StartEpisode", "CancelEpisode", "NextAction", "Invoke"}
APPROVES, READS_TRAJECTORIES = {"ApproveToolCall"}, {"GetTrajectory"}
SEES_MONEY = {"ListEntries", "ReportSpend"}
ADMINISTERS = {"CreatePolicy", "ActivatePolicy", "CreatePrices"}
POSTS_COSTS = {"Apply", "RecordToolFacts"}
SEES_TRAINING, PROMOTES = {"ListTrainingSteps"}, {"PromoteModelVersion"}
LISTED = (
    WRITES_TOOLS | RUNS | APPROVES | READS_TRAJECTORIES | SEES_MONEY | ADMINISTERS | POSTS_COSTS
) | (SEES_TRAINING | PROMOTES)
EXPECTED = {
    Role.PLATFORM_ADMIN: LISTED,
    Role.TENANT_ADMIN: LISTED - POSTS_COSTS - SEES_TRAINING - PROMOTES,
    Role.TOOL_OWNER: WRITES_TOOLS | RUNS,
    Role.DEVELOPER: RUNS | READS_TRAJECTORIES | SEES_MONEY,
    Role.APPROVER: APPROVES,
    Role.AUDITOR: SEES_MONEY,
    Role.ML_ENGINEER: RUNS | READS_TRAJECTORIES | SEES_MONEY | SEES_TRAINING,
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


KEYS = make_key_pair("gateway")


def verifier(*pairs: KeyPair) -> TokenVerifier:
    return TokenVerifier({pair.key_id: pair.public_pem for pair in pairs or (KEYS,)})


def token(pair: KeyPair = KEYS, without: str = "", **changes: Any) -> str:
    """A token like the platform's own, but for the changed claims."""
    now = int(time.time())
    claims = {"aud": "podium-internal", "sub": "ada", "tenant": "acme", "scopes": [], "iat": now}
    claims = {**claims, "exp": now + 300, **changes}
    claims.pop(without, None)
    return jwt.encode(claims, pair.private_pem, "EdDSA", headers={"kid": pair.key_id})


@given(st.text(), st.text(), st.frozensets(st.sampled_from(Scope)))
def test_verified_identity_is_the_signed_one(
    tenant: str, subject: str, scopes: frozenset[Scope]
) -> None:
    identity = Identity(tenant, subject, scopes)
    assert verifier().verify(KEYS.signer().sign(identity)) == identity


def test_token_is_reused_until_it_is_about_to_expire() -> None:
    signer = KEYS.signer()
    long, short = make_identity(subject="long"), make_identity(subject="short")
    assert signer.sign(long) == signer.sign(long)
    signer.sign(short, lifetime_s=2.0)
    expires_at = jwt.decode(signer.sign(short), options={"verify_signature": False})["exp"]
    assert expires_at > time.time() + 60


def test_token_of_a_clock_that_was_ahead_is_signed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    signer, identity, right = KEYS.signer(), make_identity(), time.time
    monkeypatch.setattr(time, "time", lambda: right() + 3600)
    ahead = signer.sign(identity)
    monkeypatch.undo()
    with pytest.raises(Unauthenticated):
        verifier().verify(ahead)
    assert verifier().verify(signer.sign(identity)) == identity


def test_token_never_outlives_the_lifetime_asked_for() -> None:
    signer = KEYS.signer()
    signer.sign(make_identity(), lifetime_s=3600.0)
    claims = jwt.decode(
        signer.sign(make_identity(), lifetime_s=100.0), options={"verify_signature": False}
    )
    assert claims["exp"] - claims["iat"] <= 100


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": int(time.time()) - 60},
        {"aud": "another-platform"},
        {"aud": ["someone", "else"]},
        {"iat": int(time.time()) + 3600},
        {"nbf": int(time.time()) + 3600},
        {"exp": "tomorrow"},
    ],
)
def test_token_of_another_time_or_audience_is_rejected(changes: dict[str, Any]) -> None:
    verifier().verify(token())
    with pytest.raises(Unauthenticated):
        verifier().verify(token(**changes))


@pytest.mark.parametrize("claim", ["exp", "aud", "sub", "tenant", "scopes"])
def test_token_without_a_claim_is_rejected(claim: str) -> None:
    with pytest.raises(Unauthenticated):
        verifier().verify(token(without=claim))


def test_token_of_a_clock_slightly_ahead_is_accepted() -> None:
    assert verifier().verify(token(iat=int(time.time()) + 3)).tenant == "acme"


def test_token_known_from_an_earlier_call_is_rejected_once_it_has_expired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watcher, known = verifier(), token(exp=int(time.time()) - 1)
    watcher.verify(known)  # still within the skew of clocks
    monkeypatch.setattr("podium_kit.rpc.tokens.CLOCK_SKEW_S", 0.0)
    with pytest.raises(Unauthenticated):
        watcher.verify(known)


def test_token_of_another_key_under_a_known_name_is_rejected() -> None:
    impostor = make_key_pair(KEYS.key_id)
    with pytest.raises(Unauthenticated):
        verifier().verify(token(impostor))


def test_token_of_an_unknown_key_is_rejected() -> None:
    with pytest.raises(Unauthenticated):
        verifier().verify(token(make_key_pair("stranger")))


def test_each_key_verifies_its_own_tokens() -> None:
    worker = make_key_pair("worker")
    both = verifier(KEYS, worker)
    assert both.verify(token(worker)) == both.verify(token(KEYS))


def test_key_with_a_limit_gives_no_scope_beyond_it() -> None:
    worker = make_key_pair("worker")
    public = {pair.key_id: pair.public_pem for pair in (KEYS, worker)}
    limited = TokenVerifier(public, {"worker": {"ledger:write", "episodes:run"}})
    claimed = ["platform:admin", "ledger:write"]
    assert limited.verify(token(worker, scopes=claimed)).scopes == {"ledger:write"}
    assert limited.verify(token(scopes=claimed)).scopes == set(claimed)


def test_unsigned_token_is_rejected() -> None:
    claims = jwt.decode(token(), options={"verify_signature": False})
    unsigned = jwt.encode(claims, "", "none", headers={"kid": KEYS.key_id})
    with pytest.raises(Unauthenticated):
        verifier().verify(unsigned)


def test_token_signed_with_the_public_key_as_a_shared_secret_is_rejected() -> None:
    claims = jwt.decode(token(), options={"verify_signature": False})
    secret = "a shared secret that is long enough for an HMAC"
    forged = jwt.encode(claims, secret, "HS256", headers={"kid": KEYS.key_id})
    with pytest.raises(Unauthenticated):
        verifier().verify(forged)


def test_token_without_key_id_is_rejected() -> None:
    claims = jwt.decode(token(), options={"verify_signature": False})
    with pytest.raises(Unauthenticated):
        verifier().verify(jwt.encode(claims, KEYS.private_pem, "EdDSA"))


@given(st.text())
def test_any_other_text_is_rejected(text: str) -> None:
    with pytest.raises(Unauthenticated):
        verifier().verify(text)


def test_changed_payload_is_rejected() -> None:
    header, _, signature = token().split(".")
    _, payload, _ = token(tenant="victim").split(".")
    with pytest.raises(Unauthenticated):
        verifier().verify(f"{header}.{payload}.{signature}")


def test_key_that_is_no_pem_is_rejected() -> None:
    with pytest.raises(ValueError, match="PEM"):
        TokenSigner("not a key", "gateway")
