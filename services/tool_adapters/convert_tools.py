import json
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.json_format import MessageToDict

from podium.registry.v1 import tool_pb2
from podium_kit.tool_kinds import KIND_FROM_WIRE
from podium_kit.wire import duration_from_proto
from tool_adapters.errors import InvalidCall, KindUnsupported
from tool_adapters.models import (
    ArgumentPlace,
    BasicAuth,
    BodyEncoding,
    CodeConnection,
    Connection,
    FunctionConnection,
    GrpcConnection,
    HeaderAuth,
    HttpAuth,
    HttpConnection,
    JsonObject,
    Limits,
    LlmApi,
    LlmConnection,
    LlmModel,
    LlmOptions,
    LlmRole,
    McpConnection,
    McpHttp,
    McpStdio,
    OAuth2Auth,
    PodiumConnection,
    QueryAuth,
    RetrievalConnection,
    SideEffect,
    Style,
    ToolDefinition,
)

SIDE_EFFECTS = {
    tool_pb2.SideEffect.Value(f"SIDE_EFFECT_{effect.name}"): effect for effect in SideEffect
}
PLACES = {
    tool_pb2.ParameterLocation.Value(f"PARAMETER_LOCATION_{place.name}"): place
    for place in ArgumentPlace
}
STYLES = {tool_pb2.ArgumentStyle.Value(f"ARGUMENT_STYLE_{style.name}"): style for style in Style}
ENCODINGS = {
    tool_pb2.BodyEncoding.Value(f"BODY_ENCODING_{encoding.name}"): encoding
    for encoding in BodyEncoding
    if encoding is not BodyEncoding.JSON
}
LLM_ROLES = {tool_pb2.LlmRole.Value(f"LLM_ROLE_{role.name}"): role for role in LlmRole}
LLM_APIS = {tool_pb2.LlmApi.Value(f"LLM_API_{api.name}"): api for api in LlmApi}


def tool_from_proto(tool: tool_pb2.Tool) -> ToolDefinition:
    """Raises KindUnsupported and InvalidCall."""
    spec = tool.spec
    return ToolDefinition(
        name=spec.name,
        version=tool.version,
        kind=KIND_FROM_WIRE[spec.kind],
        parameters_schema=_parameters_schema(spec),
        result_schema=_schema(spec.result_json_schema),
        connection=connection_from_proto(spec.connection),
        # Unknown values come from a newer registry: then the careful reading is right.
        side_effect=SIDE_EFFECTS.get(spec.side_effect, SideEffect.EFFECTFUL),
        limits=_limits(spec.limits),
        sku=spec.sku,
        shared=tool.shared,
        charges_unsent=spec.charges_unsent_calls,
    )


def _parameters_schema(spec: tool_pb2.ToolSpec) -> JsonObject:
    """The owner's schema; with a choice of models it takes `model`, as the registry offers it."""
    schema = _schema(spec.parameters_json_schema) or {"type": "object"}
    if len(spec.connection.llm.models) > 1:
        aliases = [model.alias for model in spec.connection.llm.models]
        argument = {"model": {"type": "string", "enum": aliases}}
        return schema | {
            "properties": schema.get("properties", {}) | argument,
            "required": sorted({"model", *schema.get("required", [])}),
        }
    return schema


def connection_from_proto(connection: tool_pb2.Connection) -> Connection:
    target = connection.WhichOneof("target") or "unset"
    if target not in _CONNECTIONS:
        raise KindUnsupported(target)
    return _CONNECTIONS[target](getattr(connection, target))


def mcp_from_proto(mcp: tool_pb2.McpConnection) -> McpConnection:
    if mcp.HasField("stdio"):
        return McpConnection(mcp.tool_name, McpStdio(mcp.stdio.server))
    if mcp.HasField("http"):
        bearer = [HeaderAuth("Authorization", "Bearer ", mcp.http.secret.name)]
        secrets = (
            *(bearer if mcp.http.secret.name else ()),
            *map(_header_auth, mcp.http.secret_headers),
        )
        constant = tuple(sorted(mcp.http.headers.items()))
        return McpConnection(mcp.tool_name, McpHttp(mcp.http.url, secrets, constant))
    raise InvalidCall("connection.transport is unset; give stdio or http")


def _header_auth(header: tool_pb2.SecretHeader) -> HeaderAuth:
    return HeaderAuth(header.name, header.prefix, header.secret.name)


def _http(http: tool_pb2.HttpConnection) -> HttpConnection:
    return HttpConnection(
        method=http.method,
        url_template=http.url_template,
        places={name: PLACES[place] for name, place in http.parameter_locations.items()},
        auth=_http_auth(http),
        keys=(
            *map(_header_auth, http.secret_headers),
            *(QueryAuth(each.parameter, each.secret.name) for each in http.secret_parameters),
        ),
        headers=dict(http.headers),
        wire_names=dict(http.wire_names),
        styles={name: STYLES[style] for name, style in http.argument_styles.items() if style},
        body_encoding=ENCODINGS.get(http.body_encoding, BodyEncoding.JSON),
        body_argument=http.body_argument,
    )


def _http_auth(http: tool_pb2.HttpConnection) -> HttpAuth | None:
    auth = http.auth
    match auth.WhichOneof("method"):
        case "bearer":
            return HeaderAuth("Authorization", "Bearer ", auth.bearer.name)
        case "basic":
            return BasicAuth(auth.basic.username, auth.basic.password.name)
        case "query":
            return QueryAuth(auth.query.parameter, auth.query.secret.name)
        case "oauth2_client_credentials":
            oauth2 = auth.oauth2_client_credentials
            secret, scopes = oauth2.client_secret.name, tuple(oauth2.scopes)
            return OAuth2Auth(oauth2.token_url, oauth2.client_id, secret, scopes)
    if not http.secret.name:
        return None
    header = http.secret_header or "Authorization"
    return HeaderAuth(header, http.secret_prefix, http.secret.name)


def _llm(llm: tool_pb2.LlmConnection) -> LlmConnection:
    return LlmConnection(
        models=tuple(at for model in llm.models for at in _at_endpoints(model)),
        role=LLM_ROLES.get(llm.role, LlmRole.GENERALIST),
        system_prompt=llm.system_prompt,
        max_output_tokens=llm.max_output_tokens or 1024,
        temperature=llm.temperature if llm.HasField("temperature") else None,
    )


def _at_endpoints(model: tool_pb2.LlmModel) -> Iterator[LlmModel]:
    single = tool_pb2.LlmEndpoint(base_url=model.base_url, secret=model.secret)
    for endpoint in model.endpoints or [single]:
        yield _model(model, endpoint)


def _model(model: tool_pb2.LlmModel, endpoint: tool_pb2.LlmEndpoint) -> LlmModel:
    if model.api not in LLM_APIS:
        raise InvalidCall(f"model {model.alias} names no api; its usage cannot be read")
    return LlmModel(
        alias=model.alias,
        model=model.model,
        base_url=endpoint.base_url,
        api=LLM_APIS[model.api],
        secret=endpoint.secret.name,
        sku=model.sku,
        options=LlmOptions(
            model.options.reasoning_effort,
            model.options.verbosity,
            model.options.service_tier,
            _whole_numbers(MessageToDict(model.options.body)),
            dict(model.options.headers),
        ),
        capabilities=MessageToDict(model.capabilities, preserving_proto_field_name=True),
        modelled_latency_s=duration_from_proto(model.modelled_latency),
    )


def _whole_numbers(value: Any) -> Any:
    """A Struct holds floats alone, and providers reject 2048.0 where they want 2048."""
    if isinstance(value, dict):
        return {name: _whole_numbers(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _limits(limits: tool_pb2.ToolLimits) -> Limits:
    standard = Limits()
    return Limits(
        timeout_s=duration_from_proto(limits.timeout) or standard.timeout_s,
        max_concurrency=limits.max_concurrency or standard.max_concurrency,
        max_output_bytes=limits.max_output_bytes or standard.max_output_bytes,
        max_attempts=limits.max_attempts or standard.max_attempts,
    )


def _schema(text: str) -> JsonObject | None:
    schema: JsonObject | None = json.loads(text) if text else None
    return schema


_CONNECTIONS: dict[str, Callable[[Any], Connection]] = {
    "function": lambda to: FunctionConnection(to.function),
    "http": _http,
    "mcp": mcp_from_proto,
    "code": lambda to: CodeConnection(to.stateful, to.memory_bytes),
    "retrieval": lambda to: RetrievalConnection(to.corpus, to.default_top_k or 5),
    "llm": _llm,
    "grpc": lambda to: GrpcConnection(
        to.target, to.method, to.descriptor_set, to.secret.name, to.plaintext
    ),
    "podium": lambda to: PodiumConnection(to.model, to.policy, to.max_depth or 2),
}
