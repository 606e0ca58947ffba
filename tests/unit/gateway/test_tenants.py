import asyncio
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from callers import make_identity
from gateway.audit.attempts import RejectedAttempts
from gateway.audit.models import AuditEntry, AuditFilter, AuditRecord, Claimant, Json
from gateway.audit.service import AuditLog
from gateway.chat.catalogue import ChatModels, Choice
from gateway.errors import ModelNotFound
from gateway.keys.models import ApiKey, KeyRequest
from gateway.keys.routes import CreateApiKeyRequest
from gateway.keys.service import ApiKeys, KeyUses
from gateway.limits.models import TenantLimits
from gateway.limits.service import LimitBook
from gateway.models import OrchestratorModel, ToolModels
from gateway.oidc.issuers import OidcIssuer
from podium_kit.rpc.errors import Unavailable
from podium_kit.rpc.identity import Scope, acting_as

DEVS = {"devs": "developer"}
KEYCLOAK = {"resource_access": {"my.client": {"roles": ["devs"]}}, "realm_access": {"roles": ["x"]}}
ZITADEL = "urn:zitadel:iam:org:project:roles"


def issuer(**fields: Any) -> OidcIssuer:
    known = {"issuer": "https://login.example.com", "audience": "podium", "tenant": "acme"}
    return OidcIssuer.model_validate({**known, "roles": DEVS, **fields})


@pytest.mark.parametrize(
    ("place", "claims", "roles"),
    [
        ("resource_access.my.client.roles", KEYCLOAK, ["devs"]),
        (["resource_access", "my.client", "roles"], KEYCLOAK, ["devs"]),
        ("$.resource_access['my.client'].roles", KEYCLOAK, ["devs"]),
        ('$["resource_access"]["my.client"]["roles"]', KEYCLOAK, ["devs"]),
        (
            [["realm_access", "roles"], "resource_access.my.client.roles"],
            KEYCLOAK,
            ["x", "devs"],
        ),
        ([["realm_access.roles"], ["roles"]], {"realm_access.roles": "a b", "roles": ["c"]}, None),
        (ZITADEL, {ZITADEL: {"devs": {"280": "example.com"}}}, ["devs"]),
        (ZITADEL, {ZITADEL: {"devs": {}, "admins": None, "x": False}}, []),
        ("https://example.com/roles", {"https://example.com/roles": ["devs"]}, ["devs"]),
        ("realm_access.roles", {"realm_access": {"roles": "devs ops"}}, ["devs", "ops"]),
        ("a.b.c", {"a.b": {"c": ["one"]}, "a": {"b.c": ["two"]}}, ["one"]),
        ("a.b.c", {"a.b": {"d": 1}, "a": {"b.c": ["two"]}}, ["two"]),
        ("roles", {"roles": 7}, []),
        ("roles", {"roles": [{"name": "devs"}, "ops"]}, ["ops"]),
        ("roles", {}, []),
    ],
)
def test_roles_are_found_where_the_provider_puts_them(
    place: Any, claims: dict[str, Any], roles: list[str] | None
) -> None:
    """Public reports 39 and 40."""
    found = issuer(roles_claim=place).names_of_roles(claims)
    assert found == (["a", "b", "c"] if roles is None else roles)


@pytest.mark.parametrize("place", [[], 7, "$", "$.a[0]", [["a", 7]], [[]], "$.a["])
def test_a_place_that_is_none_is_a_fault_of_the_configuration(place: Any) -> None:
    with pytest.raises(ValidationError):
        issuer(roles_claim=place)


@pytest.mark.parametrize(
    ("claims", "is_ours"),
    [
        ({"aud": "podium"}, True),
        ({"aud": ["other", "podium"]}, True),
        ({"client_id": "podium", "token_use": "access"}, True),
        ({"aud": "other", "client_id": "podium"}, False),
        ({"client_id": "other"}, False),
        ({}, None),
    ],
)
def test_an_access_token_of_cognito_names_its_audience_as_client(
    claims: dict[str, Any], is_ours: bool | None
) -> None:
    """Public report 41."""
    assert issuer(audience_claims=["aud", "client_id"]).is_audience_of(claims) is is_ours
    if "aud" not in claims:
        assert issuer().is_audience_of(claims) is None


class Kept:
    def __init__(self) -> None:
        self.keys: dict[str, ApiKey] = {}

    async def insert(self, key: ApiKey) -> None:
        self.keys[key.id] = key

    async def get(self, key_id: str) -> ApiKey | None:
        return self.keys.get(key_id)

    async def list(self, tenant: str, after_id: str, limit: int) -> list[ApiKey]:
        return []

    async def revoke(self, tenant: str, key_id: str) -> ApiKey | None:
        return None

    async def replace(self, old: ApiKey, new: ApiKey) -> None:
        self.keys |= {old.id: old, new.id: new}


async def test_a_key_until_the_last_year_is_rotated() -> None:
    keys, admin = ApiKeys(Kept(), AuditLog(Entries()), cache_s=0), make_identity()
    last = datetime.max.replace(tzinfo=UTC)
    scopes = frozenset({Scope.EPISODES_RUN.value})
    with acting_as(admin):
        old, _ = await keys.issue(KeyRequest(admin.tenant, "robot", scopes, expire_time=last))
        _, new, _ = await keys.rotate(admin, old.id, timedelta(hours=1))
    assert new.expire_time == last


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00"])
def test_a_time_that_no_database_has_is_rejected(time: str) -> None:
    with pytest.raises(ValidationError, match="not in the years 1 to 9999"):
        CreateApiKeyRequest.model_validate({"subject": "robot", "expire_time": time})


DEFAULTS = TenantLimits(requests_per_s=1.0, burst=2, concurrency=3, running_episodes=4)


class ReadTogether:
    def __init__(self) -> None:
        self.rows: dict[str, TenantLimits] = {}
        self._both = asyncio.Barrier(2)

    async def get(self, tenant: str) -> TenantLimits | None:
        await self._both.wait()
        return self.rows.get(tenant)

    async def put(
        self, tenant: str, limits: TenantLimits, changed: Collection[str]
    ) -> TenantLimits:
        known = self.rows.get(tenant, limits)
        stored = replace(known, **{name: getattr(limits, name) for name in changed})
        self.rows[tenant] = stored
        return stored

    async def delete(self, tenant: str) -> None: ...


class Entries:
    def __init__(self) -> None:
        self.after: list[Json | None] = []

    async def begin(self, entry: AuditEntry) -> None: ...

    async def finish(self, entry_id: str, rejection: str, after: Json | None) -> None:
        self.after.append(after)

    async def list(
        self, tenant: str, keep: AuditFilter, before_id: str, limit: int
    ) -> list[AuditRecord]:
        return []


async def test_two_changes_at_once_are_both_kept() -> None:
    store, entries = ReadTogether(), Entries()
    book = LimitBook(store, AuditLog(entries), DEFAULTS, cache_s=0)
    with acting_as(make_identity()):
        await asyncio.gather(book.change("acme", {"burst": 9}), book.change("acme", {"files": 7}))
    assert store.rows["acme"] == replace(DEFAULTS, burst=9, files=7)
    last = entries.after[-1]
    assert last and (last["burst"], last["files"]) == (9, 7)


ADA, EVE = Claimant("acme", "ada", "api-key 1"), Claimant("umbrella", "eve", "api-key 2")


class Restarting(Entries):
    def __init__(self) -> None:
        super().__init__()
        self.away = True
        self.entries: list[AuditEntry] = []

    async def begin(self, entry: AuditEntry) -> None:
        if self.away:
            raise Unavailable("away")
        self.entries.append(entry)

    def counted(self) -> Json:
        return {entry.tenant: entry.requested["attempts"] for entry in self.entries}


async def test_attempts_are_counted_on_while_the_database_is_away() -> None:
    store = Restarting()
    attempts = RejectedAttempts(store)
    for who in (ADA, EVE, ADA):
        attempts.note(who, "REVOKED_API_KEY", "GET /v1/models", "1")
    with pytest.raises(Unavailable):
        await attempts.write()
    attempts.note(ADA, "REVOKED_API_KEY", "GET /v1/models", "2")
    store.away = False
    await attempts.write()
    await attempts.write()
    assert store.counted() == {"acme": 3, "umbrella": 1}
    assert len(store.entries) == 2


async def test_no_path_keeps_attempts_from_being_stored() -> None:
    store = Restarting()
    store.away = False
    attempts = RejectedAttempts(store)
    attempts.note(EVE, "WRONG_TENANT", "GET /v1/\0", "1")
    await attempts.write()
    [entry] = store.entries
    assert entry.resource == "GET /v1/\ufffd"


async def test_uses_of_keys_are_written_the_next_time() -> None:
    class Store:
        def __init__(self) -> None:
            self.away = True
            self.uses: dict[str, datetime] = {}

        async def note_uses(self, uses: Mapping[str, datetime]) -> None:
            if self.away:
                raise Unavailable("away")
            self.uses |= uses

    store = Store()
    uses = KeyUses(store)
    uses.note("1")
    with pytest.raises(Unavailable):
        await uses.write()
    uses.note("2")
    store.away = False
    await uses.write()
    assert store.uses.keys() == {"1", "2"}


class Names:
    def __init__(self) -> None:
        self.policies: list[str] = []
        self.asked = 0

    async def models(self) -> list[OrchestratorModel]:
        self.asked += 1
        return []

    async def policy_names(self) -> list[str]:
        return [*self.policies]

    async def tools(self) -> list[ToolModels]:
        return []


async def test_a_policy_can_be_named_as_soon_as_it_is_there() -> None:
    names = Names()
    catalogue = ChatModels(names, cache_s=60)
    with acting_as(make_identity()):
        with pytest.raises(ModelNotFound):
            await catalogue.resolve("podium:mine")
        names.policies.append("mine")
        assert await catalogue.resolve("podium:mine") == Choice("", "mine")
        assert await catalogue.resolve("podium:mine") == Choice("", "mine")
        assert names.asked == 2
        names.policies.append("new")
        assert (await catalogue.names()).policies == ("mine", "new")
