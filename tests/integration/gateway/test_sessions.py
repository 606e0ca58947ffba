import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest
import pytest_asyncio

from embedded_servers import Database
from gateway.sessions.models import COOKIE, IDLE_MAX, LIFETIME
from gateway.sessions.store import SESSIONS_MAX
from integration.gateway.browser import Browser
from integration.gateway.gateway_under_test import Gateway, run_gateway
from integration.gateway.identity_provider import IdentityProvider
from podium_kit.rpc.identity import Scope

EPISODE = {"spec": {"task": "say hello"}}


@pytest.fixture
def browser(gateway: Gateway) -> Browser:
    return Browser(gateway)


async def execute(gateway: Gateway, statement: str, *values: object) -> Any:
    connection = await asyncpg.connect(gateway.database_url.replace("+asyncpg", ""))
    try:
        return await connection.fetch(statement, *values)
    finally:
        await connection.close()


async def aged(gateway: Gateway, **ages: timedelta) -> None:
    """Moves the times of all sessions into the past."""
    for column, age in ages.items():
        await execute(
            gateway, f"UPDATE console_sessions SET {column} = {column} - $1::interval", age
        )


async def test_a_key_signs_in_and_its_cookie_admits_requests_of_the_page(browser: Browser) -> None:
    session = await browser.sign_in(browser.gateway.key)
    assert (session["tenant"], session["subject"]) == ("acme", "ada")
    assert session["credential"] == f"api-key {browser.gateway.key.split('_')[1]}"
    listed = await browser.send("GET", "/v1/episodes")
    assert listed.status_code == 200
    started = await browser.send("POST", "/v1/episodes", json=EPISODE)
    assert started.status_code == 200, started.text
    assert browser.gateway.episodes.starters[-1].subject == "ada"


async def test_the_cookie_cannot_be_read_sent_elsewhere_or_had_from_the_database(
    gateway: Gateway,
) -> None:
    reply = await gateway.post("/v1/session")
    header = reply.headers["set-cookie"]
    for attribute in ("Secure", "HttpOnly", "SameSite=strict", "Path=/"):
        assert attribute in header
    assert "domain" not in header.lower()
    secret = header.partition("=")[2].partition(";")[0]
    [row] = await execute(gateway, "SELECT s::text AS text FROM console_sessions s")
    assert secret not in row["text"]
    assert gateway.key.split("_", 2)[2] not in reply.text + header
    assert reply.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", ""])
async def test_the_cookie_counts_for_no_other_page(browser: Browser, site: str) -> None:
    await browser.sign_in(browser.gateway.key)
    reply = await browser.send("GET", "/v1/episodes", headers={"sec-fetch-site": site})
    assert (reply.status_code, reply.json()["error"]["reason"]) == (401, "FOREIGN_REQUEST")


async def test_a_change_needs_the_token_and_json(browser: Browser) -> None:
    await browser.sign_in(browser.gateway.key)
    for token in ("", "0" * 64, "ü"):
        reply = await browser.send(
            "POST", "/v1/episodes", json=EPISODE, headers={"x-podium-csrf": token.encode()}
        )
        assert (reply.status_code, reply.json()["error"]["reason"]) == (403, "CSRF_TOKEN_MISSING")
    reply = await browser.send(
        "POST",
        "/v1/episodes",
        content=b'{"spec": {"task": "say hello"}}',
        headers={"content-type": "text/plain"},
    )
    assert (reply.status_code, reply.json()["error"]["reason"]) == (400, "JSON_EXPECTED")
    assert not browser.gateway.episodes.starters


async def test_a_header_wins_over_the_cookie(browser: Browser) -> None:
    await browser.sign_in(browser.gateway.key)
    other = await browser.gateway.new_key(tenant="umbrella")
    reply = await browser.send(
        "GET",
        "/v1/session",
        headers={"authorization": f"Bearer {other}", "sec-fetch-site": "cross-site"},
    )
    assert (reply.json()["tenant"], reply.json()["csrf_token"]) == ("umbrella", "")


async def test_a_session_ends_by_signing_out_and_cannot_be_used_again(browser: Browser) -> None:
    await browser.sign_in(browser.gateway.key)
    stolen = dict(browser.cookies)
    assert (await browser.send("DELETE", "/v1/session")).status_code == 204
    assert COOKIE not in browser.cookies
    browser.cookies = stolen
    reply = await browser.send("GET", "/v1/episodes")
    assert (reply.status_code, reply.json()["error"]["reason"]) == (401, "SESSION_ENDED")
    log = await browser.gateway.get("/v1/audit-log")
    assert [entry["action"] for entry in log.json()["entries"]][:2] == ["SignOut", "SignIn"]


@pytest.mark.parametrize(
    "ages",
    [
        {"last_used_time": IDLE_MAX},
        {"expire_time": LIFETIME},
    ],
    ids=["idle", "after its longest life"],
)
async def test_a_session_ends_by_itself(browser: Browser, ages: dict[str, timedelta]) -> None:
    await browser.sign_in(browser.gateway.key)
    await aged(browser.gateway, **ages)
    reply = await browser.send("GET", "/v1/episodes")
    assert (reply.status_code, reply.json()["error"]["reason"]) == (401, "SESSION_ENDED")


async def test_use_keeps_a_session_from_becoming_idle(browser: Browser) -> None:
    await browser.sign_in(browser.gateway.key)
    for _ in range(3):
        await aged(browser.gateway, last_used_time=IDLE_MAX / 2)
        assert (await browser.send("GET", "/v1/episodes")).status_code == 200


async def test_a_session_ends_with_its_key(browser: Browser) -> None:
    other = await browser.gateway.new_key()
    await browser.sign_in(other)
    revoked = await browser.gateway.post(f"/v1/api-keys/{other.split('_')[1]}/revoke")
    assert revoked.is_success
    reply = await browser.send("GET", "/v1/episodes")
    assert (reply.status_code, reply.json()["error"]["reason"]) == (401, "REVOKED_API_KEY")


async def test_a_session_cannot_make_another_that_would_outlive_it(browser: Browser) -> None:
    await browser.sign_in(browser.gateway.key)
    reply = await browser.send("POST", "/v1/session")
    assert (reply.status_code, reply.json()["error"]["reason"]) == (400, "KEY_NEEDED_TO_SIGN_IN")


async def test_the_oldest_session_of_a_person_ends_where_there_are_too_many(
    gateway: Gateway,
) -> None:
    browsers = [Browser(gateway) for _ in range(SESSIONS_MAX + 1)]
    for each in browsers:
        await each.sign_in(gateway.key)
    replies = await asyncio.gather(*(each.send("GET", "/v1/limits") for each in browsers))
    assert [reply.status_code for reply in replies] == [401, *[200] * SESSIONS_MAX]


async def test_it_names_the_operations_that_the_caller_may_use(gateway: Gateway) -> None:
    auditor = await gateway.new_key(scopes=[Scope.AUDIT_READ, Scope.SPEND_READ])
    seen = (await gateway.get("/v1/session", key=auditor)).json()
    assert seen["scopes"] == ["audit:read", "spend:read"]
    allowed = set(seen["operations"])
    assert {"ListAuditLog", "ReportSpendRest", "ListEpisodesRest"} <= allowed
    assert allowed.isdisjoint({"CreateApiKey", "StartEpisodeRest", "ChangeTenantLimits"})
    admin = set((await gateway.get("/v1/session")).json()["operations"])
    assert {"CreateApiKey", "StartEpisodeRest"} <= admin
    document = (await gateway.get("/openapi.json")).json()
    ids = {each["operationId"] for path in document["paths"].values() for each in path.values()}
    assert admin | allowed <= ids


async def test_the_document_states_the_scopes_that_the_gateway_asks_for(gateway: Gateway) -> None:
    document = (await gateway.get("/openapi.json")).json()
    stated = {
        each["operationId"]: each.get("security")
        for path in document["paths"].values()
        for each in path.values()
    }
    assert stated["CreateApiKey"] == [{"api_key": ["tenant:admin"]}]
    assert stated["ListEvaluationsRest"] == [
        {"api_key": ["episodes:run"]},
        {"api_key": ["trajectories:read"]},
    ]
    assert stated["GetEpisodeRest"] == [{"api_key": []}]


async def test_every_answer_has_the_headers_that_bind_a_browser(gateway: Gateway) -> None:
    for path in ("/console", "/v1/limits", "/v1/nothing", "/healthz", "/openapi.json"):
        headers = (await gateway.get(path)).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert "strict-transport-security" not in headers


async def test_browsers_stay_on_https_where_clients_use_it(
    database: Database, tmp_path: Path
) -> None:
    settings = {"public_url": "https://podium.example.com"}
    async with run_gateway(await database("gateway"), tmp_path, **settings) as gateway:
        headers = (await gateway.get("/console")).headers
    assert headers["strict-transport-security"].startswith("max-age=")


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider().serving() as running:
        yield running


@pytest_asyncio.fixture
async def people(
    database: Database, tmp_path: Path, provider: IdentityProvider
) -> AsyncIterator[Gateway]:
    """A gateway at which an identity provider signs people in."""
    secret = tmp_path / "client-secret"
    secret.write_text("s3cret&more\n")
    issuer = {
        "issuer": provider.issuer,
        "audience": "podium",
        "tenant": "acme",
        "roles_claim": "groups",
        "roles": {"podium-devs": "developer"},
        "client_id": "podium-console",
        "client_secret_file": str(secret),
        "display_name": "Acme",
    }
    settings = {"oidc_issuers": [issuer]}
    async with run_gateway(await database("gateway"), tmp_path, **settings) as running:
        yield running


async def sent_away(browser: Browser) -> str:
    options = (await browser.send("GET", "/console/sign-in-options")).json()
    assert [option["name"] for option in options] == ["Acme"]
    reply = await browser.send("GET", options[0]["path"])
    assert reply.status_code == 303
    return reply.headers["location"]


async def test_a_person_signs_in_at_the_provider(
    people: Gateway, provider: IdentityProvider
) -> None:
    browser = Browser(people)
    url = await sent_away(browser)
    query = parse_qs(urlsplit(url).query)
    assert query["redirect_uri"] == [f"{people.base_url}/console/signed-in"]
    reply = await browser.send("GET", "/console/signed-in", params=provider.sign_in(url))
    assert (reply.status_code, reply.headers["location"]) == (303, "/console")
    session = await browser.session()
    assert (session["subject"], session["roles"]) == ("ada@example.com", ["developer"])
    assert session["credential"] == f"oidc {provider.issuer}"
    lasting = datetime.fromisoformat(session["expire_time"]) - datetime.fromisoformat(
        session["create_time"]
    )
    assert lasting == LIFETIME
    assert (await browser.send("POST", "/v1/episodes", json=EPISODE)).is_success
    # The client's secret, encoded as in a form.
    assert provider.exchanges == ["Basic cG9kaXVtLWNvbnNvbGU6czNjcmV0JTI2bW9yZQ=="]


async def test_no_answer_signs_in_where_another_sign_in_began(
    people: Gateway, provider: IdentityProvider
) -> None:
    ada, attacker = Browser(people), Browser(people)
    await sent_away(ada)
    theirs = provider.sign_in(await sent_away(attacker))
    for browser, answer, reason in (
        (ada, theirs, "SIGN_IN_FAILED"),
        (Browser(people), theirs, "SIGN_IN_FAILED"),
        (attacker, {**theirs, "iss": "https://elsewhere.example"}, "SIGN_IN_FAILED"),
        (attacker, {**theirs, "code": "another"}, "SIGN_IN_FAILED"),
        (attacker, {"error": "access_denied", "state": theirs["state"]}, "SIGN_IN_FAILED"),
    ):
        reply = await browser.send("GET", "/console/signed-in", params=answer)
        assert reply.headers["location"] == f"/console?sign-in={reason}"
        assert COOKIE not in browser.cookies


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"groups": ["staff"]}, "NO_ROLE"),
        ({"nonce": "another"}, "INVALID_TOKEN"),
        ({"aud": "podium"}, "INVALID_TOKEN"),
        ({"exp": 1_700_000_000}, "INVALID_TOKEN"),
    ],
)
async def test_a_wrong_id_token_signs_no_one_in(
    people: Gateway, provider: IdentityProvider, claims: dict[str, Any], reason: str
) -> None:
    browser = Browser(people)
    provider.claims = claims
    answer = provider.sign_in(await sent_away(browser))
    reply = await browser.send("GET", "/console/signed-in", params=answer)
    assert reply.headers["location"] == f"/console?sign-in={reason}"
    assert COOKIE not in browser.cookies


async def test_a_provider_that_is_away_is_named(
    people: Gateway, provider: IdentityProvider
) -> None:
    provider.broken = True
    reply = await Browser(people).send("GET", "/console/sign-in/0")
    assert reply.headers["location"] == "/console?sign-in=IDENTITY_PROVIDER_UNAVAILABLE"
    unknown = await Browser(people).send("GET", "/console/sign-in/7")
    assert unknown.headers["location"] == "/console?sign-in=SIGN_IN_FAILED"
