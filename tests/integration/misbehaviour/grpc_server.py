import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf import descriptor_pb2

from integration.misbehaviour.faults import Fault

METHOD = "/misbehaving.v1.Weather/Get"
# A text where the method promises degrees.
TEXT_REPLY = b"\x12\x02no"


def descriptor_set() -> bytes:
    """`Reply {int64 degrees = 1; string text = 2;}` for `Get(Reply) returns (Reply)`."""
    field = descriptor_pb2.FieldDescriptorProto
    optional = field.LABEL_OPTIONAL
    message = descriptor_pb2.DescriptorProto(
        name="Reply",
        field=[
            field(name="degrees", number=1, type=field.TYPE_INT64, label=optional),
            field(name="text", number=2, type=field.TYPE_STRING, label=optional),
        ],
    )
    method = descriptor_pb2.MethodDescriptorProto(
        name="Get", input_type=".misbehaving.v1.Reply", output_type=".misbehaving.v1.Reply"
    )
    service = descriptor_pb2.ServiceDescriptorProto(name="Weather", method=[method])
    file = descriptor_pb2.FileDescriptorProto(
        name="misbehaving.proto",
        package="misbehaving.v1",
        syntax="proto3",
        message_type=[message],
        service=[service],
    )
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


@asynccontextmanager
async def misbehaving_grpc(fault: Fault, wrong: bytes = TEXT_REPLY) -> AsyncIterator[str]:
    """Its target; `wrong` is a message that is not what its method promises."""
    if fault in {Fault.HALF, Fault.RESET}:
        async with _broken_wire(fault) as target:
            yield target
        return
    server = grpc.aio.server(
        options=[("grpc.max_send_message_length", -1)],
        compression=grpc.Compression.Gzip if fault is Fault.PACKED else None,
    )
    server.add_generic_rpc_handlers([_Handler(fault, wrong)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(0)


class _Handler(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    def __init__(self, fault: Fault, wrong: bytes) -> None:
        self._fault = fault
        self._wrong = wrong

    def service(self, handler_call_details: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(self._answer)

    async def _answer(self, request: bytes, context: Any) -> bytes:
        match self._fault:
            case Fault.PACKED:
                # As many as a server packs in time.
                return b"\x12\x80\x80\x80\x05" + bytes(10 << 20)
            case Fault.HUNDRED_MEGABYTES:
                return b"\x12\x80\x80\x80\x32" + bytes(100 << 20)
            case Fault.WRONG_SCHEMA:
                return self._wrong
            case Fault.HANG:
                await asyncio.Event().wait()
        return b"\xff" + os.urandom(1024)


@asynccontextmanager
async def _broken_wire(fault: Fault) -> AsyncIterator[str]:
    """Accepts a connection and ends it, after half an HTTP/2 frame if asked to."""

    async def end(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if fault is Fault.HALF:
            writer.write(b"\x00\x00\x12\x04\x00")
            await writer.drain()
        writer.transport.abort()

    server = await asyncio.start_server(end, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    async with server:
        yield f"{host}:{port}"
