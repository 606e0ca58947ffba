"""Operations of an OpenAPI document as specs ready for RegisterTool."""

import json

from podium.registry.v1 import tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb
from rpckit.errors import InvalidArgument
from tool_registry.convert import new_spec_from_proto
from tool_registry.openapi.document import read_document
from tool_registry.openapi.operations import Operation, Skipped, Wanted, read_operations
from tool_registry.tool_checks import check_tool


def read_openapi(request: pb.ReadOpenApiRequest) -> pb.ReadOpenApiResponse:
    """One spec per operation that can become a tool. Raises InvalidOpenApi."""
    document = read_document(request.document)
    operations, skipped = read_operations(document, _wanted(request))
    reply = pb.ReadOpenApiResponse(title=document.title)
    for operation in operations:
        spec = _spec(operation, request.secret)
        try:
            check_tool(new_spec_from_proto(spec))
        except InvalidArgument as error:
            skipped.append(Skipped(f"{operation.method} {operation.path}", error.message))
        else:
            reply.specs.append(spec)
    reply.skipped.extend(pb.SkippedOperation(**vars(each)) for each in skipped)
    return reply


def _wanted(request: pb.ReadOpenApiRequest) -> Wanted:
    return Wanted(
        base_url=request.base_url,
        name_prefix=request.name_prefix,
        operation_ids=frozenset(request.operation_ids),
        operation_tags=frozenset(request.operation_tags),
        has_secret=bool(request.secret.name),
    )


def _spec(operation: Operation, secret: tool_pb2.SecretRef) -> tool_pb2.ToolSpec:
    http = tool_pb2.HttpConnection(
        method=operation.method,
        url_template=operation.url_template,
        parameter_locations={
            name: tool_pb2.ParameterLocation.Value(f"PARAMETER_LOCATION_{place.upper()}")
            for name, place in operation.places.items()
        },
    )
    if operation.credential is not None:
        http.secret.CopyFrom(secret)
        http.secret_header = operation.credential.header
        http.secret_prefix = operation.credential.prefix
    return tool_pb2.ToolSpec(
        name=operation.name,
        kind=tool_pb2.TOOL_KIND_HTTP,
        description=operation.description,
        parameters_json_schema=json.dumps(operation.parameters),
        connection=tool_pb2.Connection(http=http),
        side_effect=tool_pb2.SideEffect.Value(f"SIDE_EFFECT_{operation.side_effect.upper()}"),
        tags=operation.tags,
    )
