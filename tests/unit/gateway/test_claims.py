from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from callers import make_identity
from gateway.audit.service import AuditLog
from gateway.keys.models import ApiKey, KeyRequest
from gateway.keys.routes import CreateApiKeyRequest
from gateway.keys.service import ApiKeys
from gateway.oidc.issuers import OidcIssuer
from podium_kit.rpc.identity import Scope, acting_as
from unit.gateway.test_limit_book import Entries

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
