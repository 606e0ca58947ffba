"""Tools on the wire, and back."""

from podium.registry.v1 import tool_pb2
from podium_kit.rpc.bounds import require_bounds
from podium_kit.rpc.identity import SERVICE_SCOPES, Identity, Scope
from podium_kit.wire import duration_from_proto, timestamp_to_proto
from podium_kit.wire.attachment import KIND_FROM_WIRE as KIND_OF_MEDIA
from tool_registry.errors import InvalidTool
from tool_registry.models import (
    PLATFORM,
    ModelChoice,
    ToolKind,
    ToolSpec,
    ToolVersion,
)
from tool_registry.tools.convert_connections import check_connection
from tool_registry.tools.convert_resources import resource_of

DEFAULT_TIMEOUT_S = 30.0
# These reach nothing outside of the platform and hold no secret.
OPEN_CONNECTIONS = frozenset({"function", "code"})
KIND_TO_WIRE = {kind: tool_pb2.ToolKind.Value(f"TOOL_KIND_{kind.name}") for kind in ToolKind}
SIDE_EFFECTS = set(tool_pb2.SideEffect.values()) - {tool_pb2.SIDE_EFFECT_UNSPECIFIED}
KIND_FROM_WIRE: dict[int, ToolKind] = {number: kind for kind, number in KIND_TO_WIRE.items()}


def kind_from_proto(number: int) -> ToolKind:
    """The kind. Raises InvalidTool when it is unset: it selects the adapter."""
    if number not in KIND_FROM_WIRE:
        if number == tool_pb2.TOOL_KIND_FIND_TOOLS:
            raise InvalidTool("find_tools is the platform's own: it is offered, not registered")
        if number == tool_pb2.TOOL_KIND_CLIENT:
            raise InvalidTool("tools of kind client come with an episode: set its client_tools")
        raise InvalidTool("kind is unset; it selects the adapter")
    return KIND_FROM_WIRE[number]


def new_spec_from_proto(spec: tool_pb2.ToolSpec) -> ToolSpec:
    """A spec to register. Raises OutOfBounds, InvalidTool.

    What is stored is not checked again: a rule of today must not hide a tool of yesterday.
    """
    # Not every spec came as a request of its own, which was checked at the door.
    require_bounds(spec)
    if spec.side_effect not in SIDE_EFFECTS:
        raise InvalidTool("side_effect is unset; retries depend on it")
    check_connection(spec)
    return _spec_from_proto(spec)


def _spec_from_proto(spec: tool_pb2.ToolSpec) -> ToolSpec:
    return ToolSpec(
        name=spec.name,
        kind=kind_from_proto(spec.kind),
        connection_kind=spec.connection.WhichOneof("target") or "",
        description=spec.description,
        parameters_schema=spec.parameters_json_schema,
        result_schema=spec.result_json_schema,
        models=tuple(_choice_from_proto(model) for model in spec.connection.llm.models),
        max_output_tokens=spec.connection.llm.max_output_tokens,
        sku=spec.sku,
        timeout_s=duration_from_proto(spec.limits.timeout) or DEFAULT_TIMEOUT_S,
        tags=frozenset(spec.tags),
        provider=spec.provider,
        example_tasks=tuple(spec.example_tasks),
        general=_is_general(spec),
        gives_answer=spec.gives_answer,
        runs_policy=spec.connection.podium.policy,
        embeds=spec.connection.llm.role == tool_pb2.LLM_ROLE_EMBEDDER,
        wire=spec.SerializeToString(deterministic=True),
        resource=resource_of(spec),
    )


def _is_general(spec: tool_pb2.ToolSpec) -> bool:
    generalist = spec.connection.llm.role == tool_pb2.LLM_ROLE_GENERALIST
    return generalist or spec.kind == tool_pb2.TOOL_KIND_CODE


def stored_spec(wire: bytes) -> ToolSpec:
    return _spec_from_proto(tool_pb2.ToolSpec.FromString(wire))


def tool_to_proto(tool: ToolVersion) -> tool_pb2.Tool:
    shared = tool.owner == PLATFORM
    message = tool_pb2.Tool(
        spec=tool_pb2.ToolSpec.FromString(tool.spec.wire),
        version=tool.version,
        content_digest=tool.digest,
        create_time=timestamp_to_proto(tool.create_time),
        # People of another tenant are none of a tenant's business.
        created_by="" if shared else tool.created_by,
        shared=shared,
    )
    if tool.deprecate_time is not None:
        message.deprecate_time.CopyFrom(timestamp_to_proto(tool.deprecate_time))
    if tool.delete_time is not None:
        message.delete_time.CopyFrom(timestamp_to_proto(tool.delete_time))
    return message


def tool_as_seen(tool: ToolVersion, caller: Identity) -> tool_pb2.Tool:
    """A tool for a caller; addresses and names of secrets are its owner's and the services' own."""
    message = tool_to_proto(tool)
    owner = Scope.PLATFORM_ADMIN if message.shared else Scope.TOOLS_WRITE
    if not (caller.may(owner) or caller.scopes & SERVICE_SCOPES):
        message.spec.connection.CopyFrom(_without_address(message.spec.connection))
    return message


def _without_address(connection: tool_pb2.Connection) -> tool_pb2.Connection:
    """Its kind, and of models what a caller chooses and policies decide by."""
    kind = connection.WhichOneof("target")
    if kind is None or kind in OPEN_CONNECTIONS:
        return connection
    shown = tool_pb2.Connection()
    getattr(shown, kind).SetInParent()
    if kind == "llm":
        shown.llm.role = connection.llm.role
        shown.llm.max_output_tokens = connection.llm.max_output_tokens
        shown.llm.models.extend(
            tool_pb2.LlmModel(
                alias=model.alias,
                model=model.model,
                sku=model.sku,
                description=model.description,
                provider=model.provider,
                tags=model.tags,
                takes=model.takes,
            )
            for model in connection.llm.models
        )
    return shown


def _choice_from_proto(model: tool_pb2.LlmModel) -> ModelChoice:
    return ModelChoice(
        model.alias,
        model.model,
        model.sku,
        model.description,
        model.provider,
        frozenset(model.tags),
        # Unknown kinds come from a newer registry.
        frozenset(KIND_OF_MEDIA[kind] for kind in model.takes if kind in KIND_OF_MEDIA),
    )
