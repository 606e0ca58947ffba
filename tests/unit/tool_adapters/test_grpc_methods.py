import itertools
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.protobuf import any_pb2, descriptor_pb2, struct_pb2
from google.protobuf.message import Message
from grpc_reflection.v1alpha import reflection_pb2 as pb
from grpc_reflection.v1alpha.reflection_pb2_grpc import (
    ServerReflectionServicer,
    add_ServerReflectionServicer_to_server,
)

from builders.tool_calls import tool_call, tool_definition
from podium_kit.failures import FailureKind
from podium_kit.tool_kinds import GRPC
from tool_adapters.adapter import NOTHING_USED, CallFailed
from tool_adapters.calls.attempts import Attempts, CallProgress
from tool_adapters.grpc.adapter import GrpcAdapter, GrpcMethods
from tool_adapters.models import GrpcConnection, ToolDefinition
from tool_adapters.network_guard import NetworkGuard
from tool_adapters.secret_store import MountedSecrets

METHOD = "/weather.v1.Weather/Get"
Described = descriptor_pb2.FileDescriptorProto


def file_of(*imports: str) -> Described:
    """`Get(Report) returns (Report)`, and `Report {Any detail = 1; Value value = 2;}`."""
    field = descriptor_pb2.FieldDescriptorProto
    report = descriptor_pb2.DescriptorProto(name="Report")
    for number, (name, type_name) in enumerate(
        [("detail", ".google.protobuf.Any"), ("value", ".google.protobuf.Value")], start=1
    ):
        report.field.add(
            name=name,
            number=number,
            type=field.TYPE_MESSAGE,
            label=field.LABEL_OPTIONAL,
            type_name=type_name,
        )
    service = descriptor_pb2.ServiceDescriptorProto(name="Weather")
    service.method.add(
        name="Get", input_type=".weather.v1.Report", output_type=".weather.v1.Report"
    )
    return Described(
        name="weather.proto",
        package="weather.v1",
        syntax="proto3",
        dependency=["google/protobuf/any.proto", "google/protobuf/struct.proto", *imports],
        message_type=[report],
        service=[service],
    )


def described() -> list[Described]:
    known = [Described(), Described()]
    any_pb2.DESCRIPTOR.CopyToProto(known[0])
    struct_pb2.DESCRIPTOR.CopyToProto(known[1])
    return [*known, file_of()]


def tool_of(target: str, descriptor_set: bytes = b"") -> ToolDefinition:
    return tool_definition(
        "weather", GRPC, GrpcConnection(target, METHOD, descriptor_set, plaintext=True)
    )


@asynccontextmanager
async def serving(server: grpc.aio.Server) -> AsyncIterator[str]:
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


async def called(target: str, descriptor_set: bytes, arguments: dict[str, Any]) -> str:
    methods = GrpcMethods(NetworkGuard(allow_private=True))
    try:
        return await methods.call("acme", tool_of(target, descriptor_set), arguments, "")
    finally:
        await methods.close()


@asynccontextmanager
async def echo(answer: bytes | None = None) -> AsyncIterator[str]:
    async def get(request: bytes, _: Any) -> bytes:
        return request if answer is None else answer

    server = grpc.aio.server()
    handlers = {"Get": grpc.unary_unary_rpc_method_handler(get)}
    handler = grpc.method_handlers_generic_handler("weather.v1.Weather", handlers)
    server.add_generic_rpc_handlers((handler,))
    async with serving(server) as target:
        yield target


def described_set() -> bytes:
    return descriptor_pb2.FileDescriptorSet(file=described()).SerializeToString()


async def test_what_an_any_holds_is_described_by_the_tool() -> None:
    arguments = {"detail": {"@type": "type.googleapis.com/weather.v1.Report", "value": "mild"}}
    async with echo() as target:
        answer = await called(target, described_set(), arguments)
    assert '"mild"' in answer


def any_of(type_name: str, value: bytes = b"") -> bytes:
    detail = any_pb2.Any(type_url=f"type.googleapis.com/{type_name}", value=value)
    return b"\x0a" + bytes([detail.ByteSize()]) + detail.SerializeToString()


def value_of(message: Message) -> bytes:
    return b"\x12" + bytes([message.ByteSize()]) + message.SerializeToString()


@pytest.mark.parametrize(
    "answer",
    [
        any_of("weather.v1.Unheard"),
        any_of("weather.v1.Report", b"\xff\xff"),
        value_of(struct_pb2.Value(number_value=float("nan"))),
    ],
    ids=["unknown type", "another type", "no number"],
)
async def test_an_answer_that_json_cannot_hold_is_the_tools_fault(answer: bytes) -> None:
    async with echo(answer) as target:
        with pytest.raises(CallFailed, match="holds what JSON cannot") as failed:
            await called(target, described_set(), {})
    assert failed.value.failure.kind is FailureKind.MALFORMED_OUTPUT


async def test_arguments_with_an_unknown_type_are_invalid() -> None:
    async with echo() as target:
        with pytest.raises(CallFailed) as failed:
            await called(target, described_set(), {"detail": {"@type": 7, "value": 1}})
    assert failed.value.failure.kind is FailureKind.INVALID_ARGUMENTS


class Reflection(ServerReflectionServicer):  # type: ignore[misc]
    def __init__(self, replies: Iterable[pb.ServerReflectionResponse]) -> None:
        self._replies = replies
        self.streams = 0

    async def ServerReflectionInfo(
        self, requests: Any, context: Any
    ) -> AsyncIterator[pb.ServerReflectionResponse]:
        self.streams += 1
        for reply in self._replies:
            yield reply
        # To end before would be another fault.
        async for _ in requests:
            pass


def reply_with(*files: bytes) -> pb.ServerReflectionResponse:
    described = pb.FileDescriptorResponse(file_descriptor_proto=files)
    return pb.ServerReflectionResponse(file_descriptor_response=described)


LEAF = Described(name="leaf.proto").SerializeToString()
UNENDING = file_of("never.proto").SerializeToString()
WIDE = file_of(*map(str, range(1_000))).SerializeToString()


@pytest.mark.parametrize(
    ("replies", "words"),
    [
        ([reply_with(b"\xff\xff")], "no FileDescriptorProto"),
        (itertools.repeat(reply_with(LEAF)), "describes no method"),
        ([reply_with(UNENDING)], "describes no method"),
        ([reply_with(WIDE)], "more than 500 files or 8 MiB; give the tool a descriptor_set"),
    ],
    ids=["noise", "without end", "never all", "too many files"],
)
async def test_a_server_that_describes_itself_badly_ends_the_call_soon(
    replies: Iterable[pb.ServerReflectionResponse], words: str
) -> None:
    reflection = Reflection(replies)
    server = grpc.aio.server()
    add_ServerReflectionServicer_to_server(reflection, server)
    async with serving(server) as target:
        with pytest.raises(CallFailed, match=words) as failed:
            await called(target, b"", {})
    assert failed.value.unsent
    assert reflection.streams <= 2


@pytest.mark.parametrize("variables", [{}, {"TOOL_ADAPTERS_SECRET_ACME__KEY": "two\nlines"}])
async def test_a_call_without_a_usable_secret_is_free(variables: dict[str, str]) -> None:
    no_methods: Any = None
    secrets = MountedSecrets(None, variables)
    attempts = Attempts({GRPC: GrpcAdapter(no_methods, secrets)})
    tool = tool_definition(
        "quote", GRPC, GrpcConnection("quotes.example.com:443", "quotes.Quotes/Get", secret="key")
    )
    call = tool_call("quote")
    answer = await attempts.make(CallProgress(call, tool))
    assert (answer.usage.quantities, answer.unsent) == (NOTHING_USED.quantities, True)
