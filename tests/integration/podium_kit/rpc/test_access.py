from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from callers import client_channel, make_identity, make_key_pair, write_verify_keys
from podium_kit.rpc.access import access_of
from podium_kit.rpc.identity import Scope
from podium_kit.rpc.server import Service, running_server
from podium_kit.rpc.settings import ServerSettings
from unit.house.test_rpc_access import contract_methods, method_path

OK = grpc.StatusCode.OK
# Bounds come after access, and an empty request lacks fields that some methods need.
PASSED = (OK, grpc.StatusCode.INVALID_ARGUMENT)
REJECTED = (grpc.StatusCode.PERMISSION_DENIED,)


def answering(methods: Iterable[MethodDescriptor]) -> list[Service]:
    """Every service of the contracts; its methods answer with nothing in it."""
    handlers: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for method in methods:
        handlers[method.containing_service.full_name][method.name] = _handler(method)

    def add(name: str, server: grpc.aio.Server) -> None:
        generic = grpc.method_handlers_generic_handler(name, handlers[name])
        server.add_generic_rpc_handlers((generic,))

    return [Service(add, name, name) for name in handlers]


def _handler(method: MethodDescriptor) -> grpc.RpcMethodHandler:  # type: ignore[type-arg]
    reply = GetMessageClass(method.output_type)()

    async def answer(_request: Any, _context: Any) -> Any:
        return reply

    async def answers(_request: Any, _context: Any) -> AsyncIterator[Any]:
        yield reply

    make, behaviour = (
        (grpc.unary_stream_rpc_method_handler, answers)
        if method.server_streaming
        else (grpc.unary_unary_rpc_method_handler, answer)
    )
    return make(
        behaviour,
        request_deserializer=GetMessageClass(method.input_type).FromString,
        response_serializer=type(reply).SerializeToString,
    )


async def status(channel: grpc.aio.Channel, method: MethodDescriptor) -> grpc.StatusCode:
    path = f"/{method_path(method)}"
    try:
        if method.server_streaming:
            async for _ in channel.unary_stream(path, bytes, bytes)(b""):
                pass
        else:
            await channel.unary_unary(path, bytes, bytes)(b"")
    except grpc.aio.AioRpcError as error:
        return error.code()
    return OK


async def test_an_rpc_lets_the_scopes_of_its_contract_pass_and_no_others(tmp_path: Path) -> None:
    methods, keys = contract_methods(), make_key_pair()
    verify = write_verify_keys(tmp_path / "keys.json", [keys])
    settings = ServerSettings(port=0, verify_keys_file=verify, drain_grace_s=0)
    wrong = []
    async with running_server(settings, answering(methods), {}) as port:
        for held in (None, *Scope):
            identity = make_identity(scopes=[held] if held else [])
            async with client_channel(port, identity, keys) as channel:
                for method in methods:
                    wanted = access_of(method_path(method)).scopes
                    passes = not wanted or any(identity.may(scope) for scope in wanted)
                    found = await status(channel, method)
                    if found not in (PASSED if passes else REJECTED):
                        wrong.append((held, method_path(method), found))
    assert not wrong
