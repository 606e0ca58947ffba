from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE, SERVICE = "chaos.v1", "chaos.v1.Orders"
METHOD = f"/{SERVICE}/Place"
_POOL = descriptor_pool.DescriptorPool()


def _file() -> descriptor_pb2.FileDescriptorProto:
    field = descriptor_pb2.FieldDescriptorProto(
        number=1,
        type=descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
        label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
    )
    file = descriptor_pb2.FileDescriptorProto(
        name="chaos/v1/orders.proto", package=PACKAGE, syntax="proto3"
    )
    for message, name in (("PlaceRequest", "order"), ("PlaceResponse", "placed")):
        field.name = name
        file.message_type.add(name=message, field=[field])
    method = descriptor_pb2.MethodDescriptorProto(
        name="Place",
        input_type=f".{PACKAGE}.PlaceRequest",
        output_type=f".{PACKAGE}.PlaceResponse",
    )
    file.service.add(name="Orders", method=[method])
    return file


def described() -> bytes:
    return descriptor_pb2.FileDescriptorSet(file=[_file()]).SerializeToString()


def orders_server(place: Callable[[str], None], port: int) -> grpc.aio.Server:
    _POOL.Add(_file())
    request, response = (
        message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in ("PlaceRequest", "PlaceResponse")
    )

    async def answer(wanted: Any, _context: object) -> Any:
        place(wanted.order)
        return response(placed=wanted.order)

    handler = grpc.unary_unary_rpc_method_handler(
        answer,
        request_deserializer=request.FromString,
        response_serializer=response.SerializeToString,
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(SERVICE, {"Place": handler})]
    )
    server.add_insecure_port(f"127.0.0.1:{port}")
    return server
