import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import grpc
import httpx
from google.protobuf import descriptor_pool
from google.protobuf.message_factory import GetMessageClass

from builders.contract_bounds import Case, cases
from embedded_servers import Database
from gateway.rest.messages import merge_fields, method_of, new_request
from gateway.rest.routes import ROUTES
from gateway.rest.transcoding import WITH_BODY
from integration.gateway.gateway_under_test import SERVED, run_gateway
from podium_kit.rpc.bounds import require_bounds
from podium_kit.rpc.identity import Scope
from podium_kit.rpc.server import Service

# The gateway writes the tenant's own limit over it.
OVERWRITTEN = "running_limit"
EVERYBODYS = (Scope.TENANT_ADMIN, Scope.PLATFORM_ADMIN)
ALL = [case for case in cases() if case.field != OVERWRITTEN]


class Anything:
    def __init__(self, name: str) -> None:
        self.name = name

    def add(self, _servicer: object, server: grpc.aio.Server) -> None:
        methods = descriptor_pool.Default().FindServiceByName(self.name).methods
        handlers = {
            each.name: _handler(each.server_streaming)(
                _replying(GetMessageClass(each.output_type), each.server_streaming),
                GetMessageClass(each.input_type).FromString,
                lambda message: message.SerializeToString(),
            )
            for each in methods
        }
        generic = grpc.method_handlers_generic_handler(self.name, handlers)
        server.add_generic_rpc_handlers((generic,))


def _handler(streaming: bool) -> Any:
    if streaming:
        return grpc.unary_stream_rpc_method_handler
    return grpc.unary_unary_rpc_method_handler


def _replying(reply: Any, streaming: bool) -> Any:
    async def once(_request: Any, _context: Any) -> Any:
        return reply()

    async def stream(_request: Any, _context: Any) -> Any:
        yield reply()

    return stream if streaming else once


def _others() -> Iterator[Service]:
    for name in sorted({route.service for route in ROUTES} - SERVED):
        yield Service(Anything(name).add, None, name)


async def _answer(http: httpx.AsyncClient, case: Case) -> httpx.Response:
    in_path = re.findall(r"\{(\w+)\}", case.route.path)
    path = case.route.path
    for name in in_path:
        path = path.replace(f"{{{name}}}", quote(str(case.body[name]), safe=""))
    rest = {name: value for name, value in case.body.items() if name not in in_path}
    if case.route.method in WITH_BODY:
        return await http.request(case.route.method, path, content=json.dumps(rest))
    return await http.request(case.route.method, path, params=_query(rest))


def _query(body: dict[str, Any]) -> httpx.QueryParams:
    return httpx.QueryParams(list(_pairs(body)))


def _pairs(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Fields of messages have a dot before their name."""
    for name, value in values.items():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                yield from _pairs(each, f"{prefix}{name}.")
            else:
                yield f"{prefix}{name}", str(each)


async def test_what_is_just_outside_is_rejected_with_the_name_of_the_field(
    database: Database, tmp_path: Path
) -> None:
    outside = [case for case in ALL if case.outside]
    assert len(outside) > 300
    wrong = []
    async with (
        run_gateway(await database("gateway"), tmp_path, list(_others())) as gateway,
        gateway.http(await gateway.new_key(scopes=EVERYBODYS)) as http,
    ):
        for case in outside:
            reply = await _answer(http, case)
            param = reply.json().get("error", {}).get("param")
            if (reply.status_code, param) != (400, case.field):
                said = f"{case.bound} gave {reply.status_code}: {reply.text[:300]}"
                wrong.append(f"{case.route.rpc} {case.field} {said}")
    assert not wrong, "\n".join(wrong)


def test_what_is_at_a_bound_is_inside() -> None:
    inside = [case for case in ALL if not case.outside]
    assert len(inside) > 150
    for case in inside:
        message = new_request(method_of(case.route))
        merge_fields(message, case.body)
        require_bounds(message)
