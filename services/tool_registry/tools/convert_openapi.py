import json
from typing import assert_never

from podium.registry.v1 import tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium_kit.json_schemas.errors import UnusableSchema
from podium_kit.rpc.errors import InvalidArgument
from tool_registry.tools.checks import check_tool
from tool_registry.tools.convert import new_spec_from_proto
from tool_registry.tools.openapi.document import Unsupported, read_document
from tool_registry.tools.openapi.operations import Operation, Skipped, Wanted, read_operations
from tool_registry.tools.openapi.security import (
    Basic,
    Bearer,
    Caller,
    ClientCredentials,
    Credential,
    HeaderKey,
    QueryKey,
)


def read_openapi(request: pb.ReadOpenApiRequest) -> pb.ReadOpenApiResponse:
    document = read_document(request.document, request.document_url)
    operations, skipped = read_operations(document, _wanted(request))
    reply = pb.ReadOpenApiResponse(title=document.title)
    for operation in operations:
        try:
            reply.specs.append(_checked(operation, request))
        except (InvalidArgument, Unsupported, UnusableSchema) as error:
            # What its schema refers to is read with the schema, a reference after the other.
            reason = error.message if isinstance(error, InvalidArgument) else str(error)
            skipped.append(Skipped(f"{operation.method} {operation.path}", reason))
    reply.skipped.extend(pb.SkippedOperation(**vars(each)) for each in skipped)
    return reply


def _wanted(request: pb.ReadOpenApiRequest) -> Wanted:
    return Wanted(
        base_url=request.base_url,
        name_prefix=request.name_prefix,
        operation_ids=frozenset(request.operation_ids),
        operation_tags=frozenset(request.operation_tags),
        caller=Caller(
            bool(request.secret.name),
            request.username,
            request.client_id,
            frozenset(request.scheme_secrets),
        ),
    )


def _checked(operation: Operation, request: pb.ReadOpenApiRequest) -> tool_pb2.ToolSpec:
    """The spec with as much of its schema as a tool may have.

    Raises InvalidArgument, Unsupported, UnusableSchema.
    """
    spec = _spec(operation, request)
    loose = operation.parameters()
    spec.parameters_json_schema = json.dumps(loose.schema)
    spec.notices.extend(loose.notices)
    # It was put together of keywords with values that they may have.
    check_tool(new_spec_from_proto(spec), shared=False, is_schema=True)
    return spec


def _spec(operation: Operation, request: pb.ReadOpenApiRequest) -> tool_pb2.ToolSpec:
    arguments = operation.arguments
    http = tool_pb2.HttpConnection(
        method=operation.method,
        url_template=operation.url_template,
        parameter_locations={
            name: tool_pb2.ParameterLocation.Value(f"PARAMETER_LOCATION_{place.upper()}")
            for name, place in arguments.places.items()
        },
        headers=arguments.headers,
        wire_names=arguments.wire_names,
        argument_styles={
            name: tool_pb2.ArgumentStyle.Value(f"ARGUMENT_STYLE_{style.upper()}")
            for name, style in arguments.styles.items()
        },
        body_argument=arguments.whole_body,
    )
    if arguments.body_encoding:
        encoding = f"BODY_ENCODING_{arguments.body_encoding.upper()}"
        http.body_encoding = tool_pb2.BodyEncoding.Value(encoding)
    for credential in operation.credentials:
        named = request.scheme_secrets.get(credential.scheme, request.secret)
        _authenticate(http, credential, named, alone=len(operation.credentials) == 1)
    return tool_pb2.ToolSpec(
        name=operation.name,
        kind=tool_pb2.TOOL_KIND_HTTP,
        description=operation.description,
        connection=tool_pb2.Connection(http=http),
        side_effect=tool_pb2.SideEffect.Value(f"SIDE_EFFECT_{operation.side_effect.upper()}"),
        tags=operation.tags,
    )


def _authenticate(
    http: tool_pb2.HttpConnection,
    credential: Credential,
    secret: tool_pb2.SecretRef,
    *,
    alone: bool,
) -> None:
    match credential:
        case HeaderKey(_, header, "") if alone:
            http.secret_header = header
            http.secret.CopyFrom(secret)
        case HeaderKey(_, header, prefix):
            http.secret_headers.add(name=header, prefix=prefix, secret=secret)
        case QueryKey(_, parameter) if not alone:
            http.secret_parameters.add(parameter=parameter, secret=secret)
        case Bearer():
            http.auth.bearer.CopyFrom(secret)
        case Basic(_, username):
            basic = tool_pb2.BasicAuth(username=username, password=secret)
            http.auth.basic.CopyFrom(basic)
        case QueryKey(_, parameter):
            http.auth.query.CopyFrom(tool_pb2.QueryAuth(parameter=parameter, secret=secret))
        case ClientCredentials(_, token_url, client_id, scopes):
            oauth2 = tool_pb2.OAuth2ClientCredentials(
                token_url=token_url, client_id=client_id, client_secret=secret, scopes=scopes
            )
            http.auth.oauth2_client_credentials.CopyFrom(oauth2)
        case _:
            assert_never(credential)
