from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import grpc
import httpx
import pytest
from google.protobuf.descriptor import FieldDescriptor

from e2e.tenancy.cases import NOT_SERVED, RPCS
from e2e.tenancy.test_cross_tenant import METHODS
from e2e.tenancy.two_tenants import OWNER, TwoTenants
from gateway.rest.messages import method_of
from gateway.rest.openapi import PATH_PARAMETER
from gateway.rest.routes import ROUTES
from podium_kit.rpc.identity import Scope
from podium_kit.rpc.texts import takes_any_characters

TEXT = "a\0b"
FREE = {
    "OrchestratorService/CountTokens",
    "OrchestratorService/NextAction",
    "OrchestratorService/NextActionStreaming",
    "SandboxService/RunCode",
    "ToolAdapterService/CheckAnswer",
    "ToolAdapterService/Invoke",
    "ToolAdapterService/InvokeStreaming",
}
CHAT = {"model": "podium", "messages": [{"role": "user", "content": TEXT}]}
OWN_ROUTES: list[tuple[str, str, Any, str]] = [
    ("POST", "/v1/chat/completions", CHAT, "messages.0.content"),
    ("POST", "/v1/chat/completions", {**CHAT, "messages": [], "model": TEXT}, "model"),
    ("POST", "/v1/responses", {"model": "podium", "input": TEXT}, "input"),
    ("GET", "/v1/responses/a%00b", None, "response_id"),
    ("POST", "/v1/responses/a%00b/cancel", {}, "response_id"),
    ("POST", "/v1/messages", {**CHAT, "max_tokens": 9}, "messages.0.content"),
    ("POST", "/v1/api-keys", {"subject": TEXT, "roles": ["developer"]}, "subject"),
    ("POST", "/v1/api-keys/a%00b/rotate", {}, "key_id"),
    ("POST", "/v1/api-keys/a%00b/revoke", {}, "key_id"),
    ("GET", "/v1/api-keys?page_token=a%00b", None, "page_token"),
    ("GET", "/v1/audit-log?subject=a%00b", None, "subject"),
    ("GET", "/v1/audit-log?resource=a%00b", None, "resource"),
    ("GET", "/v1/audit-log?unheard-of=a%00b", None, "unheard-of"),
    ("PUT", "/v1/tenants/a%00b/limits", {}, "tenant"),
]


def texts_of(message: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every text field of a message type: its path, and the values that put NUL there."""
    if message in above or message.full_name.startswith("google.protobuf."):
        return
    for field in message.fields:
        for path, value in _values(field, (*above, message)):
            yield ".".join(filter(None, (field.name, path))), {field.name: value}


def _values(field: FieldDescriptor, above: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    inner: Any = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        if inner.fields_by_name["key"].type == FieldDescriptor.TYPE_STRING:
            for path, value in _values(inner.fields_by_name["value"], above):
                yield f"k.{path}".rstrip("."), {"k": value}
        return
    found: Iterator[tuple[str, Any]] = iter(())
    if field.type == FieldDescriptor.TYPE_STRING:
        found = iter([("", TEXT)])
    elif inner is not None:
        found = texts_of(inner, above)
    for path, value in found:
        yield (f"0.{path}".rstrip("."), [value]) if field.is_repeated else (path, value)


async def test_every_rpc_rejects_it_and_names_the_field(tenants: TwoTenants) -> None:
    wrong, tried = [], 0
    for name, (expected, _) in RPCS.items():
        if expected is NOT_SERVED or name in FREE:
            continue
        for path, values in texts_of(METHODS[name].input_type):
            answer = await tenants.call(OWNER, METHODS[name], values, tuple(Scope))
            tried += 1
            named = f"{path} holds the character NUL".encode() in answer.seen
            if answer.code is not grpc.StatusCode.INVALID_ARGUMENT or not named:
                wrong.append(f"{name} {path}: {answer}")
    assert not wrong, "\n".join(wrong)
    assert tried > len(RPCS)


def test_only_rpcs_that_store_nothing_take_any_character() -> None:
    free = {name for name, method in METHODS.items() if takes_any_characters(_path(method))}
    assert free == FREE


async def test_every_route_of_an_rpc_rejects_it_and_names_the_field(tenants: TwoTenants) -> None:
    wrong = []
    async with tenants.http(OWNER) as http:
        for route in ROUTES:
            in_path = PATH_PARAMETER.findall(route.path)
            for path, values in texts_of(method_of(route).input_type):
                # A digit is a text and a number.
                filled = {name: quote(values.get(name, "1")) for name in in_path}
                rest = {name: value for name, value in values.items() if name not in in_path}
                url = route.path.format(**filled)
                reply = await _asked(http, route.method, url, rest)
                if reply.status_code != 400 or reply.json()["error"]["param"] != path:
                    wrong.append(f"{route.method} {route.path} {path}: {reply.text[:200]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("method", "path", "body", "field"), OWN_ROUTES)
async def test_the_gateways_own_routes_reject_it_and_name_the_field(
    tenants: TwoTenants, method: str, path: str, body: Any, field: str
) -> None:
    async with tenants.http(OWNER) as http:
        reply = await http.request(method, path, json=body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, field), reply.text
    assert reply.json()["error"]["reason"] == "NUL_IN_TEXT"


async def _asked(
    http: httpx.AsyncClient, method: str, url: str, values: dict[str, Any]
) -> httpx.Response:
    if method in {"POST", "PUT", "PATCH"}:
        return await http.request(method, url, json=values)
    return await http.request(method, url, params=dict(_query(values)))


def _query(values: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Fields of messages and entries of maps with a dot, as the gateway reads them."""
    if isinstance(values, dict):
        for key, value in values.items():
            yield from _query(value, f"{name}.{key}" if name else key)
    else:
        yield name, values[0] if isinstance(values, list) else values


def _path(method: Any) -> str:
    return f"{method.containing_service.full_name}/{method.name}"
