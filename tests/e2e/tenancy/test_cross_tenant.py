import re
from typing import Any

import grpc
import httpx

from e2e.conftest import CANARY
from e2e.tenancy.cases import NAMELESS, NOT_SERVED, OWN, REJECTED, RPCS, filled
from e2e.tenancy.cases import ROUTES as GATEWAY_ROUTES
from e2e.tenancy.two_tenants import OTHER_STRANGER, OWNER, STRANGER, TwoTenants
from gateway.rest.routes import ROUTES
from gateway.rest.transcoding import WITH_BODY
from unit.house.test_rpc_access import contract_methods

METHODS = {f"{m.containing_service.name}/{m.name}": m for m in contract_methods()}
# Errors that say "not yours" or "no such thing"; a fault of the server is none of them.
REJECTIONS = {
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ALREADY_EXISTS,
}
EXPECTED = {
    REJECTED: REJECTIONS,
    OWN: {grpc.StatusCode.OK},
    NAMELESS: {grpc.StatusCode.INVALID_ARGUMENT},
    NOT_SERVED: {grpc.StatusCode.UNIMPLEMENTED},
}
# What the owner reads before and after, to see that nothing of it was touched.
READS = (
    "EpisodeService/GetEpisode",
    "ToolRegistryService/GetTool",
    "PolicyService/GetPolicy",
    "BudgetService/GetBudget",
    "PriceBookService/ListPrices",
    "CorpusService/Search",
)


def test_every_rpc_has_a_case() -> None:
    silent, gone = set(METHODS) - set(RPCS), set(RPCS) - set(METHODS)
    assert (silent, gone) == (set(), set()), "add a line to cases.py for a new RPC"


async def snapshot(tenants: TwoTenants) -> dict[str, bytes]:
    seen = {}
    for name in READS:
        values = filled(RPCS[name][1], tenants.things)
        answer = await tenants.call(OWNER, METHODS[name], values)
        assert answer.code is grpc.StatusCode.OK, (name, answer)
        assert CANARY.encode() in answer.seen or name == "BudgetService/GetBudget", name
        seen[name] = answer.seen
    return seen


async def test_no_rpc_reads_or_changes_another_tenants_resources(tenants: TwoTenants) -> None:
    before, wrong = await snapshot(tenants), []
    for name, (expected, values) in RPCS.items():
        answer = await tenants.call(STRANGER, METHODS[name], filled(values, tenants.things))
        if CANARY.encode() in answer.seen:
            wrong.append(f"{name} leaks: {answer}")
        if answer.code not in EXPECTED[expected]:
            wrong.append(f"{name} is not {expected}: {answer}")
    assert not wrong, "\n".join(wrong)
    assert await snapshot(tenants) == before


async def test_no_route_reads_or_changes_another_tenants_resources(tenants: TwoTenants) -> None:
    before, wrong = await snapshot(tenants), []
    order = list(RPCS)
    table = sorted(ROUTES, key=lambda route: order.index(rpc_of(route)))
    cases = {(route.method, route.path): RPCS[rpc_of(route)] for route in table}
    cases = GATEWAY_ROUTES | cases
    async with tenants.http(OTHER_STRANGER) as http:
        assert set(cases) == await documented(http), "add a line to cases.py for a new route"
        for (method, path), (expected, values) in cases.items():
            reply = await asked(http, method, path, filled(values, tenants.things))
            if CANARY in reply.text or CANARY in str(reply.headers):
                wrong.append(f"{method} {path} leaks: {reply.text}")
            # Only who knows the update mask gets as far as the owner.
            if method == "PATCH" and reply.status_code != 404:
                wrong.append(f"{method} {path} asks for no owner: {reply.text}")
            if reply.status_code >= 500 or reply.is_success > (expected is OWN):
                wrong.append(f"{method} {path} answers {reply.status_code}: {reply.text}")
    assert not wrong, "\n".join(wrong)
    assert await snapshot(tenants) == before


async def test_an_episode_id_of_another_tenant_answers_no_chat(tenants: TwoTenants) -> None:
    body = {"model": "podium", "messages": [{"role": "user", "content": "what was it?"}]}
    async with tenants.http(STRANGER) as http:
        headers = {"x-episode-id": tenants.things["episode"]}
        reply = await http.post("/v1/chat/completions", json=body, headers=headers)
    assert not reply.is_success
    assert CANARY not in reply.text


def rpc_of(route: Any) -> str:
    return f"{route.service.rpartition('.')[2]}/{route.rpc}"


async def documented(http: httpx.AsyncClient) -> set[tuple[str, str]]:
    paths = (await http.get("/openapi.json")).json()["paths"]
    return {(method.upper(), path) for path, methods in paths.items() for method in methods}


async def asked(
    http: httpx.AsyncClient, method: str, path: str, values: dict[str, Any]
) -> httpx.Response:
    in_path = re.findall(r"\{(\w+)\}", path)
    url = path.format(**{name: values.get(name, "acme") for name in in_path})
    rest = {name: value for name, value in values.items() if name not in in_path}
    if method in WITH_BODY:
        return await http.request(method, url, json=rest)
    return await http.request(method, url, params=rest)
