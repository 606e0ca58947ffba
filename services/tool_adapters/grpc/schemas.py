"""Message types of a gRPC method: from a descriptor set, or asked from the server itself."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message
from grpc_reflection.v1alpha import reflection_pb2 as pb
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from podium_kit.failures import FailureKind
from tool_adapters.adapter import CallFailed
from tool_adapters.models import GrpcConnection

# Of what a server says about itself: it is read before any call, and parsed at once.
FILES_MAX, BYTES_MAX = 500, 8 * 1024 * 1024


@dataclass(frozen=True)
class MethodTypes:
    request: type[Message]
    response: type[Message]


async def method_types(connection: GrpcConnection, channel: grpc.aio.Channel) -> MethodTypes:
    """Raises CallFailed and AioRpcError."""
    service_name, _, method_name = connection.method.lstrip("/").rpartition("/")
    if connection.descriptor_set:
        files = _read_descriptor_set(connection.descriptor_set)
    else:
        files = await _reflected_files(channel, service_name)
    try:
        service = _pool(files).FindServiceByName(service_name)
        method = service.methods_by_name[method_name]
    except (KeyError, TypeError, RecursionError) as error:
        message = f"the server describes no method {connection.method}"
        raise CallFailed(FailureKind.NOT_FOUND, message) from error
    if method.client_streaming or method.server_streaming:
        raise CallFailed(FailureKind.NOT_FOUND, f"{connection.method} streams; only unary ones do")
    return MethodTypes(
        message_factory.GetMessageClass(method.input_type),
        message_factory.GetMessageClass(method.output_type),
    )


def _read_descriptor_set(serialized: bytes) -> dict[str, descriptor_pb2.FileDescriptorProto]:
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(serialized).file
    except DecodeError as error:
        message = "the tool's descriptor_set is not a FileDescriptorSet"
        raise CallFailed(FailureKind.NOT_FOUND, message) from error
    return {file.name: file for file in files}


def _pool(files: dict[str, descriptor_pb2.FileDescriptorProto]) -> descriptor_pool.DescriptorPool:
    """A pool of its own: two servers may describe different types under one name."""
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()

    def add(name: str) -> None:
        if name in added or name not in files:
            return
        added.add(name)
        for dependency in files[name].dependency:
            add(dependency)
        pool.Add(files[name])

    for name in files:
        add(name)
    return pool


async def _reflected_files(
    channel: grpc.aio.Channel, symbol: str
) -> dict[str, descriptor_pb2.FileDescriptorProto]:
    """The file of a symbol and everything it imports (gRPC server reflection)."""
    files: dict[str, descriptor_pb2.FileDescriptorProto] = {}
    wanted = [pb.ServerReflectionRequest(file_containing_symbol=symbol)]
    while wanted:
        found = {file.name: file for file in await _ask(channel, wanted)}
        if not found.keys() - files.keys():
            # It would not say more if it was asked again.
            break
        files |= found
        missing = {name for file in files.values() for name in file.dependency} - files.keys()
        size_bytes = sum(file.ByteSize() for file in files.values())
        if len(files) + len(missing) > FILES_MAX or size_bytes > BYTES_MAX:
            message = f"the server describes itself in more than {FILES_MAX} files or"
            message += f" {BYTES_MAX >> 20} MiB; give the tool a descriptor_set"
            raise CallFailed(FailureKind.OUTPUT_TOO_LARGE, message)
        wanted = [pb.ServerReflectionRequest(file_by_filename=name) for name in sorted(missing)]
    return files


async def _ask(
    channel: grpc.aio.Channel, requests: list[pb.ServerReflectionRequest]
) -> list[descriptor_pb2.FileDescriptorProto]:
    async def stream() -> AsyncIterator[pb.ServerReflectionRequest]:
        for request in requests:
            yield request

    replies = ServerReflectionStub(channel).ServerReflectionInfo(stream())
    found: list[descriptor_pb2.FileDescriptorProto] = []
    try:
        # One to each; a server that continues is not listened to.
        for _ in requests:
            reply = await replies.read()
            if not isinstance(reply, pb.ServerReflectionResponse):
                # The end.
                break
            found += _files_in(reply)
    finally:
        replies.cancel()
    return found


def _files_in(
    reply: pb.ServerReflectionResponse,
) -> list[descriptor_pb2.FileDescriptorProto]:
    if reply.HasField("error_response"):
        message = f"the server describes itself badly: {reply.error_response.error_message}"
        raise CallFailed(FailureKind.NOT_FOUND, message)
    try:
        return [
            descriptor_pb2.FileDescriptorProto.FromString(serialized)
            for serialized in reply.file_descriptor_response.file_descriptor_proto
        ]
    except DecodeError as error:
        message = "the server describes itself with what is no FileDescriptorProto"
        raise CallFailed(FailureKind.NOT_FOUND, message) from error
