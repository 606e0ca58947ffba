import base64
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import oidc_provider_mock
import pytest
import pytest_asyncio
from joserfc.jwk import ECKey

from embedded_servers import Database
from gateway.oidc import provider as oidc_provider
from integration.gateway.gateway_under_test import Gateway, run_gateway
from integration.gateway.identity_provider import IdentityProvider, rsa

ROLES = {"podium-devs": "developer", "podium-auditors": "auditor"}


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider().serving() as running:
        yield running


@pytest_asyncio.fixture
async def gateway(
    database: Database, tmp_path: Path, provider: IdentityProvider
) -> AsyncIterator[Gateway]:
    issuers = [
        {
            "issuer": provider.issuer,
            "audience": "podium",
            "tenant_claim": "org.id",
            "tenants": ["acme", "umbrella"],
            "roles_claim": "groups",
            "roles": ROLES,
            "teams": {"podium-search": "search"},
        },
    ]
    async with run_gateway(await database("gateway"), tmp_path, oidc_issuers=issuers) as running:
        yield running


async def asked(gateway: Gateway, token: str, path: str = "/v1/limits") -> httpx.Response:
    return await gateway.get(path, key=token)


def acme(provider: IdentityProvider, **changes: Any) -> str:
    return provider.token(**{"org": {"id": "acme"}, **changes})


async def test_claims_become_tenant_subject_and_roles(
    gateway: Gateway, provider: IdentityProvider
) -> None:
    assert (await asked(gateway, acme(provider))).json()["tenant"] == "acme"
    other = acme(provider, org={"id": "umbrella"}, groups=["podium-auditors", "staff"])
    assert (await asked(gateway, other)).json()["tenant"] == "umbrella"
    assert (await asked(gateway, other, "/v1/audit-log")).status_code == 200
    rejected = await asked(gateway, acme(provider), "/v1/audit-log")
    assert (rejected.status_code, rejected.json()["error"]["reason"]) == (403, "SCOPE_MISSING")
    assert "ada@example.com of tenant acme" in rejected.json()["error"]["message"]


async def test_teams_come_from_the_provider_and_only_those_of_the_configuration(
    gateway: Gateway, provider: IdentityProvider
) -> None:
    token = acme(provider, groups=["podium-devs", "podium-search", "everybody"])
    await gateway.post("/v1/episodes", json={"spec": {"task": "say hello"}}, key=token)
    assert gateway.episodes.starters[-1].groups == {"role:developer", "team:search"}


def unsigned(claims_of: str) -> str:
    header = base64.urlsafe_b64encode(json.dumps({"alg": "none", "kid": "first"}).encode())
    return f"{header.decode().rstrip('=')}.{claims_of.split('.')[1]}."


async def test_an_invalid_token_is_a_401_that_names_the_problem(
    gateway: Gateway, provider: IdentityProvider
) -> None:
    good, now = acme(provider), 1_700_000_000
    stranger, other_kind = rsa("first"), ECKey.generate_key("P-256", {"kid": "first"})
    header, payload, signature = good.split(".")
    hs256 = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"first"}').decode().rstrip("=")
    cases = {
        acme(provider, exp=now): "has expired",
        acme(provider, exp=None): "lacks the claim exp",
        acme(provider, aud="another"): "not for podium",
        acme(provider, aud=None): "lacks the claim aud",
        acme(provider, iss="http://elsewhere"): "an issuer this platform does not know",
        acme(provider, iat=4_000_000_000, nbf=4_000_000_000): "not valid yet",
        acme(provider, org={"id": "globex"}): "names no tenant",
        acme(provider, org=None): "names no tenant",
        acme(provider, sub=None): "must be 1 to 128 printable",
        acme(provider, sub="ada\0"): "must be 1 to 128 printable",
        acme(provider, sub="ada\nbob"): "must be 1 to 128 printable",
        acme(provider, sub="ada\u202e"): "must be 1 to 128 printable",
        acme(provider, sub=" "): "must be 1 to 128 printable",
        acme(provider, sub="a" * 129): "must be 1 to 128 printable",
        acme(provider, key=stranger): "signature is not valid",
        f"{header}.{payload}.{signature[:-4]}AAAA": "signature is not valid",
        f"{hs256}.{payload}.{signature}": "signed with HS256",
        unsigned(good): "signed with none",
        acme(provider, key=other_kind, header={"alg": "ES256"}): "signature is not valid",
        "a.b.c": "neither an API key nor a JWT",
    }  # fmt: skip
    for token, words in cases.items():
        reply = await asked(gateway, token)
        assert reply.status_code == 401, (words, reply.text)
        assert words in reply.json()["error"]["message"]
        assert reply.headers["www-authenticate"].startswith("Bearer")
    assert (await asked(gateway, good)).is_success


async def test_a_token_within_the_skew_of_clocks_is_accepted(
    gateway: Gateway, provider: IdentityProvider
) -> None:
    assert (await asked(gateway, acme(provider, exp=int(time.time()) - 10))).is_success
    assert (await asked(gateway, acme(provider, iat=int(time.time()) + 10))).is_success


async def test_the_error_for_a_person_without_a_role_names_the_claim_to_fix(
    gateway: Gateway, provider: IdentityProvider
) -> None:
    for groups in (["staff"], [], None, {"podium-devs": False}, 7):
        reply = await asked(gateway, acme(provider, groups=groups))
        assert (reply.status_code, reply.json()["error"]["reason"]) == (403, "NO_ROLE")
        assert "claim groups" in reply.json()["error"]["message"]


async def test_a_new_key_of_the_provider_is_fetched_and_unknown_ones_do_not_flood_it(
    gateway: Gateway, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await asked(gateway, acme(provider))).is_success
    for n in range(5):
        reply = await asked(gateway, acme(provider, header={"kid": f"made-up-{n}"}))
        assert "which" in reply.json()["error"]["message"]
    assert provider.fetched == 1
    provider.keys = [rsa("second")]
    monkeypatch.setattr(oidc_provider, "REFETCH_INTERVAL_S", 0.0)
    assert (await asked(gateway, acme(provider))).is_success
    assert provider.fetched == 2
    # The provider has withdrawn the old key.
    old = IdentityProvider(port=provider.port)
    assert (await asked(gateway, acme(old))).status_code == 401


async def test_a_silent_provider_is_a_503_until_it_answers(
    gateway: Gateway, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.broken = True
    reply = await asked(gateway, acme(provider))
    assert (reply.status_code, reply.json()["error"]["reason"]) == (
        503,
        "IDENTITY_PROVIDER_UNAVAILABLE",
    )
    provider.broken = False
    monkeypatch.setattr(oidc_provider, "REFETCH_INTERVAL_S", 0.0)
    assert (await asked(gateway, acme(provider))).is_success
    # From then on its keys are known; a silent provider locks no one out.
    provider.broken = True
    monkeypatch.setattr(oidc_provider, "KEYS_KEPT_S", 0.0)
    assert (await asked(gateway, acme(provider))).is_success


async def test_a_person_signs_in_at_a_third_party_provider(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
    with oidc_provider_mock.run_server_in_thread() as server:
        issuer = f"http://localhost:{server.server_port}"
        configured = {
            "issuer": issuer,
            "audience": "podium",
            "tenant": "acme",
            "roles_claim": "groups",
            "roles": ROLES,
        }
        token = await signed_in(issuer, {"groups": ["podium-auditors"]})
        settings = {"oidc_issuers": [configured]}
        async with run_gateway(await database("gateway"), tmp_path, **settings) as gateway:
            reply = await asked(gateway, token, "/v1/audit-log")
            assert (reply.status_code, (await asked(gateway, token)).json()["tenant"]) == (
                200,
                "acme",
            )


async def signed_in(issuer: str, claims: dict[str, Any]) -> str:
    back = "http://localhost/back"
    query = {"client_id": "podium", "redirect_uri": back, "response_type": "code"}
    async with httpx.AsyncClient(base_url=issuer, trust_env=False) as http:
        assert (await http.put("/users/ada", json=claims)).is_success
        scoped = {**query, "scope": "openid"}
        reply = await http.post("/oauth2/authorize", params=scoped, data={"sub": "ada"})
        code = parse_qs(urlsplit(reply.headers["location"]).query)["code"][0]
        exchange = {"grant_type": "authorization_code", "code": code, "redirect_uri": back}
        tokens = await http.post("/oauth2/token", data=exchange, auth=("podium", "secret"))
    return str(tokens.json()["id_token"])


async def test_mcp_clients_find_out_who_issues_tokens(
    gateway: Gateway, provider: IdentityProvider
) -> None:
    known = "/.well-known/oauth-protected-resource"
    async with gateway.http("") as http:
        nobody = await http.post("/v1/mcp", json={})
        elsewhere = await http.get("/v1/limits")
        document = (await http.get(f"{known}/v1/mcp")).json()
        whole = (await http.get(known)).json()
    challenge = f'Bearer realm="podium", resource_metadata="{gateway.base_url}{known}'
    assert nobody.status_code == elsewhere.status_code == 401
    assert nobody.headers["www-authenticate"] == f'{challenge}/v1/mcp"'
    assert elsewhere.headers["www-authenticate"] == f'{challenge}"'
    assert document["resource"] == f"{gateway.base_url}/v1/mcp"
    assert whole["resource"] == f"{gateway.base_url}/"
    assert document["authorization_servers"] == [provider.issuer]
    expired = await gateway.post("/v1/mcp", json={}, key=acme(provider, exp=1))
    assert 'error="invalid_token"' in expired.headers["www-authenticate"]
    headers = {"accept": "application/json, text/event-stream"}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    for credential in (acme(provider), gateway.key):
        assert (
            await gateway.post("/v1/mcp", json=ping, headers=headers, key=credential)
        ).is_success


async def test_agents_sign_in_at_the_provider_that_their_card_names(
    gateway: Gateway, provider: IdentityProvider
) -> None:
    card = (await gateway.get("/.well-known/agent-card.json", key="")).json()
    schemes, required = card["securitySchemes"], card["securityRequirements"]
    discovery = schemes["oidc1"]["openIdConnectSecurityScheme"]["openIdConnectUrl"]
    async with httpx.AsyncClient(verify=False) as http:
        assert (await http.get(discovery)).json()["issuer"] == provider.issuer
    assert [list(each["schemes"]) for each in required] == [["apiKey"], ["apiKeyHeader"], ["oidc1"]]
    message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "6*7?"}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    reply = await gateway.post(
        "/v1/a2a", json=call, headers={"a2a-version": "1.0"}, key=acme(provider)
    )
    assert reply.json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    [running] = gateway.episodes.episodes.values()
    assert running.tenant == "acme"


async def test_the_public_url_is_what_clients_are_told(
    database: Database, tmp_path: Path, provider: IdentityProvider
) -> None:
    issuer = {"issuer": provider.issuer, "audience": "podium", "tenant": "acme", "roles": ROLES}
    given = {"oidc_issuers": [issuer], "public_url": "https://podium.example.com/"}
    async with (
        run_gateway(await database("gateway"), tmp_path, **given) as behind,
        behind.http("") as http,
    ):
        document = (await http.get("/.well-known/oauth-protected-resource/v1/mcp")).json()
        rejected = await http.get("/v1/mcp")
        card = (await http.get("/.well-known/agent-card.json")).json()
    assert document["resource"] == "https://podium.example.com/v1/mcp"
    told = {each["url"] for each in card["supportedInterfaces"]}
    assert told == {"https://podium.example.com/v1/a2a"}
    assert "https://podium.example.com/.well-known/" in rejected.headers["www-authenticate"]


async def test_without_a_provider_there_is_no_such_document(
    database: Database, tmp_path: Path
) -> None:
    async with (
        run_gateway(await database("gateway"), tmp_path) as plain,
        plain.http("") as http,
    ):
        assert (await http.get("/.well-known/oauth-protected-resource")).status_code == 404
        rejected = await http.get("/v1/limits")
    assert rejected.headers["www-authenticate"] == 'Bearer realm="podium"'
