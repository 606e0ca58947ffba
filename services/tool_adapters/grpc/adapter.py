import asyncio
import re
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from podium_kit.failures import FailureKind
from tool_adapters.adapter import Adapter, AdapterResult, CallFailed, Output, ToolCall
from tool_adapters.grpc.schemas import MethodTypes, method_types
from tool_adapters.models import GrpcConnection, JsonObject, ToolDefinition
from tool_adapters.network_guard import ForbiddenAddress, NetworkGuard, require_public
from tool_adapters.secret_store import PLATFORM, SecretStore, for_header

METHODS_KEPT = 1000
VALUES_MAX = 100_000
FAILURE_OF_CODE = {
    grpc.StatusCode.INVALID_ARGUMENT: (FailureKind.INVALID_ARGUMENTS, False),
    grpc.StatusCode.DEADLINE_EXCEEDED: (FailureKind.TIMEOUT, True),
    grpc.StatusCode.UNAVAILABLE: (FailureKind.UNAVAILABLE, True),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (FailureKind.RATE_LIMITED, True),
    grpc.StatusCode.PERMISSION_DENIED: (FailureKind.PERMISSION_DENIED, False),
    grpc.StatusCode.UNAUTHENTICATED: (FailureKind.PERMISSION_DENIED, False),
    grpc.StatusCode.NOT_FOUND: (FailureKind.NOT_FOUND, False),
    grpc.StatusCode.UNIMPLEMENTED: (FailureKind.NOT_FOUND, False),
}
# Without it gRPC has one connection to an address for all channels, whatever their tenants.
OWN_CONNECTION = ("grpc.use_local_subchannel_pool", 1)
# Inflated, a message may be a thousand times as large; what is packed anyway is not read.
UNPACKED = (
    ("grpc.compression_enabled_algorithms_bitset", 1),
    ("grpc.per_message_decompression", 0),
)
COMPRESSED = "the tool's answer is compressed, which was not asked for; send it as it is"
# What json_format raises besides its own errors, as for a type or a time that it does not know.
UNWRITABLE = (TypeError, ValueError, AttributeError)
GZIP = b"\x1f\x8b"
PACKED = re.compile(r"Compression algorithm '\w+' is disabled")
# What gRPC says of a call for which it found no connection; it has no code for that.
UNCONNECTED = re.compile(r"failed to connect to all addresses|errors resolving|DNS resolution")
_TARGET = re.compile(r"(?:dns:(?:///)?)?(?P<host>\[[^\]]+\]|[^/:]+):(?P<port>\d+)")


@dataclass(frozen=True)
class _Owned:
    tenant: str
    tool: ToolDefinition


@dataclass(frozen=True)
class _Method:
    channel: grpc.aio.Channel
    types: MethodTypes


class GrpcAdapter(Adapter):
    def __init__(self, methods: "GrpcMethods", secrets: SecretStore) -> None:
        self._methods = methods
        self._secrets = secrets

    async def invoke(self, call: ToolCall, tool: ToolDefinition) -> AdapterResult:
        assert isinstance(tool.connection, GrpcConnection)
        name = tool.connection.secret
        owner = PLATFORM if tool.shared else call.tenant
        token = for_header(name, await self._secrets.value(owner, name)) if name else ""
        content = await self._methods.call(call.tenant, tool, call.arguments, token)
        return AdapterResult(Output(content, content))

    async def close(self) -> None:
        await self._methods.close()


class GrpcMethods:
    """Calls unary methods with JSON, whatever their message types.

    Channels and message types are kept by tool and its owner.
    """

    def __init__(self, guard: NetworkGuard) -> None:
        self._guard = guard
        # Two tenants may have the same tool, and not the same hosts.
        self._methods: OrderedDict[_Owned, _Method] = OrderedDict()

    async def call(
        self, tenant: str, tool: ToolDefinition, arguments: JsonObject, token: str
    ) -> str:
        owned = _Owned(tenant, tool)
        assert isinstance(tool.connection, GrpcConnection)
        with _unsent():
            try:
                method = await self._method(owned, tool.connection)
            except grpc.aio.AioRpcError as error:
                raise _failed(error) from error
            request = _request(method, arguments)
        try:
            return await _exchange(method, tool.connection, request, token)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE and self._methods.get(owned) is method:
                # The name may lead elsewhere by now. Others may be calling over the channel: it
                # closes itself after the last of them.
                del self._methods[owned]
            raise _failed(error) from error

    async def close(self) -> None:
        while self._methods:
            _, method = self._methods.popitem()
            await method.channel.close(None)

    async def _method(self, owned: _Owned, connection: GrpcConnection) -> _Method:
        if owned in self._methods:
            self._methods.move_to_end(owned)
            return self._methods[owned]
        channel = await self._open(owned, connection)
        try:
            types = await method_types(connection, channel)
        except BaseException:
            await channel.close(None)
            raise
        self._methods[owned] = _Method(channel, types)
        if len(self._methods) > METHODS_KEPT:
            # As above: not under those that are calling over it.
            self._methods.popitem(last=False)
        return self._methods[owned]

    async def _open(self, owned: _Owned, connection: GrpcConnection) -> grpc.aio.Channel:
        limit = ("grpc.max_receive_message_length", owned.tool.limits.max_output_bytes)
        target, pinned = await self._address(owned, connection.target)
        options = [limit, OWN_CONNECTION, *UNPACKED, *pinned]
        if connection.plaintext:
            return grpc.aio.insecure_channel(target, options)
        return grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(), options)

    async def _address(self, owned: _Owned, target: str) -> tuple[str, list[tuple[str, str]]]:
        """The target; for a tenant's tool the very address that was checked."""
        match = _TARGET.fullmatch(target)
        host = match["host"].strip("[]") if match else ""
        if self._guard.trusts(owned.tenant, owned.tool, host):
            return target, []
        if match is None:
            raise CallFailed(FailureKind.UNAVAILABLE, f"{target} is not of the form host:port")
        address = await self._public_address(owned.tenant, host)
        pinned = f"ipv6:[{address}]" if ":" in address else f"ipv4:{address}"
        name = [("grpc.ssl_target_name_override", host), ("grpc.default_authority", host)]
        return f"{pinned}:{match['port']}", name

    async def _public_address(self, tenant: str, host: str) -> str:
        try:
            found = await self._guard.names.addresses(tenant, host, 0)
            for entry in found:
                require_public(str(entry[4][0]))
        except ForbiddenAddress as error:
            message = f"{host}: {error.strerror}"
            raise CallFailed(FailureKind.PERMISSION_DENIED, message) from error
        except OSError as error:
            message = f"{host} has no address: {error.strerror}"
            raise CallFailed(FailureKind.UNAVAILABLE, message, True) from error
        return str(found[0][4][0])


@contextmanager
def _unsent() -> Iterator[None]:
    """Marks failures in the block as failures before the call leaves."""
    try:
        yield
    except CallFailed as error:
        error.unsent = True
        raise


def _request(method: _Method, arguments: JsonObject) -> Message:
    request = method.types.request()
    try:
        json_format.ParseDict(arguments, request, descriptor_pool=_pool_of(request))
    except (json_format.ParseError, *UNWRITABLE) as error:
        raise CallFailed(FailureKind.INVALID_ARGUMENTS, str(error)) from error
    return request


async def _exchange(
    method: _Method, connection: GrpcConnection, request: Message, token: str
) -> str:
    call = method.channel.unary_unary(
        "/" + connection.method.lstrip("/"),
        request_serializer=method.types.request.SerializeToString,
        response_deserializer=bytes,
    )
    metadata = (("authorization", f"Bearer {token}"),) if token else ()
    # gRPC itself would take what it cannot read for no message at all.
    raw = await call(request, metadata=metadata)
    try:
        reply = method.types.response.FromString(raw)
    except DecodeError as error:
        expected = method.types.response.DESCRIPTOR.name
        message = f"the tool answered with something else than {expected}"
        # gRPC rejects it by itself as well, and may be later than the answer.
        if raw.startswith(GZIP):
            message = COMPRESSED
        raise CallFailed(FailureKind.MALFORMED_OUTPUT, message) from error
    return await asyncio.to_thread(_as_json, reply)


def _as_json(reply: Message) -> str:
    found, pending = 0, [reply]
    while pending:
        for _, value in pending.pop().ListFields():
            parts = _parts(value)
            found += len(parts)
            if found > VALUES_MAX:
                message = f"the answer holds over {VALUES_MAX} values; ask for less"
                raise CallFailed(FailureKind.OUTPUT_TOO_LARGE, message)
            pending.extend(part for part in parts if isinstance(part, Message))
    try:
        return json_format.MessageToJson(
            reply, preserving_proto_field_name=True, indent=None, descriptor_pool=_pool_of(reply)
        )
    except (json_format.SerializeToJsonError, DecodeError, *UNWRITABLE) as error:
        message = f"the tool's answer holds what JSON cannot: {error}"
        raise CallFailed(FailureKind.MALFORMED_OUTPUT, message) from error


def _pool_of(message: Message) -> Any:
    return message.DESCRIPTOR.file.pool


def _parts(value: Any) -> Collection[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else (value,)


def _failed(error: grpc.aio.AioRpcError) -> CallFailed:
    details = error.details() or "no details"
    if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in details:
        return CallFailed(FailureKind.OUTPUT_TOO_LARGE, f"the answer is too large: {details}")
    if error.code() is grpc.StatusCode.INTERNAL and PACKED.search(details):
        return CallFailed(FailureKind.MALFORMED_OUTPUT, COMPRESSED)
    kind, retryable = FAILURE_OF_CODE.get(error.code(), (FailureKind.TOOL_ERROR, False))
    message = f"the tool answered with {error.code().name}: {details}"
    unsent = error.code() is grpc.StatusCode.UNAVAILABLE and UNCONNECTED.search(details)
    return CallFailed(kind, message, retryable, unsent=bool(unsent))
