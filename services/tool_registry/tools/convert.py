from collections.abc import Set
from contextlib import suppress

from google.protobuf.json_format import MessageToDict, ParseDict

from podium.registry.v1 import tool_pb2
from podium_kit.models.model_families import ModelFamiliesFile
from podium_kit.rpc.bounds import require_bounds
from podium_kit.rpc.errors import InvalidArgument
from podium_kit.rpc.identity import SERVICE_SCOPES, Identity, Scope
from podium_kit.tool_kinds import KINDS, ToolKind, kind_of
from podium_kit.tool_kinds.checks import InvalidTool
from podium_kit.wire import duration_from_proto, timestamp_to_proto
from podium_kit.wire.values import KIND_FROM_WIRE as KIND_OF_MEDIA
from tool_registry.models import (
    PLATFORM,
    ModelChoice,
    ToolSpec,
    ToolVersion,
)

DEFAULT_TIMEOUT_S = 30.0
SIDE_EFFECTS = set(tool_pb2.SideEffect.values()) - {tool_pb2.SIDE_EFFECT_UNSPECIFIED}


def kind_from_proto(number: int) -> ToolKind:
    kind = kind_of(number)
    if kind.not_registered:
        raise InvalidTool(kind.not_registered)
    return kind


def new_spec_from_proto(spec: tool_pb2.ToolSpec, *, shared: bool = True) -> ToolSpec:
    """A spec to register, by default the operator's. Raises OutOfBounds, InvalidTool.

    What is stored is not checked again: a rule of today must not hide a tool of yesterday.
    """
    # Not every spec came as a request of its own, which was checked at the door.
    require_bounds(spec)
    if spec.side_effect not in SIDE_EFFECTS:
        raise InvalidTool("side_effect is unset; retries depend on it")
    if connection := KINDS.get(spec.connection.WhichOneof("target") or ""):
        connection.check(spec)
        if not shared:
            connection.check_tenants(spec)
    return _spec_from_proto(spec)


def _spec_from_proto(spec: tool_pb2.ToolSpec) -> ToolSpec:
    kind = kind_from_proto(spec.kind)
    return ToolSpec(
        name=spec.name,
        kind=kind,
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
        general=kind.general or spec.connection.llm.role == tool_pb2.LLM_ROLE_GENERALIST,
        gives_answer=spec.gives_answer,
        runs_policy=spec.connection.podium.policy,
        embeds=spec.connection.llm.role == tool_pb2.LLM_ROLE_EMBEDDER,
        delegates=spec.connection.llm.role == tool_pb2.LLM_ROLE_DELEGATE,
        executor=spec.connection.llm.executor.tool,
        executor_argument=spec.connection.llm.executor.argument,
        wire=spec.SerializeToString(deterministic=True),
        resource=kind.resource(spec.connection),
    )


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
        connection = message.spec.connection
        kind = KINDS.get(connection.WhichOneof("target") or "")
        connection.CopyFrom(kind.public(connection) if kind else tool_pb2.Connection())
    return message


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


def with_terms(own: bytes, operators: bytes, tags: Set[str], effect_known: bool) -> bytes:
    """The first spec with price, limits, side effect and tags that are not its owner's to state."""
    spec, theirs = tool_pb2.ToolSpec.FromString(own), tool_pb2.ToolSpec.FromString(operators)
    spec.sku, spec.provider = theirs.sku, theirs.provider
    spec.limits.CopyFrom(theirs.limits)
    spec.side_effect = theirs.side_effect if effect_known else tool_pb2.SIDE_EFFECT_EFFECTFUL
    kind_of(theirs.kind).bind(spec.connection, theirs.connection)
    spec.tags[:] = sorted(tags)
    return spec.SerializeToString(deterministic=True)


class ToolModelCapabilities:
    """Capabilities of a tool's models: those of the family, and over them what the owner states."""

    def __init__(self, families: ModelFamiliesFile) -> None:
        self._families = families

    def check(self, spec: tool_pb2.ToolSpec) -> None:
        """Raises InvalidTool for an unknown family, and for what the model is known to reject."""
        for index, model in enumerate(spec.connection.llm.models):
            field = f"connection.llm.models[{index}]"
            try:
                known = self._of(model)
            except InvalidArgument as error:
                raise InvalidTool(f"{field}.capabilities: {error.message}") from error
            effort = model.options.reasoning_effort
            if effort and known.efforts and effort not in known.efforts:
                raise InvalidTool(
                    f"{field}.options.reasoning_effort is {effort!r}, and {model.model} accepts"
                    f" {', '.join(known.efforts)}; state capabilities.efforts if it accepts others"
                )

    def of(self, spec: tool_pb2.ToolSpec) -> dict[str, tool_pb2.LlmCapabilities]:
        """The capabilities of each chat model by its alias.

        A model whose family is no longer in the operator's file is left out: the tool stays usable.
        """
        found = {}
        for model in spec.connection.llm.models:
            if model.api != tool_pb2.LLM_API_OPENAI_EMBEDDINGS:
                with suppress(InvalidArgument):
                    found[model.alias] = self._of(model)
        return found

    def _of(self, model: tool_pb2.LlmModel) -> tool_pb2.LlmCapabilities:
        base_url = model.endpoints[0].base_url if model.endpoints else model.base_url
        stated = MessageToDict(model.capabilities, preserving_proto_field_name=True)
        known = self._families.capabilities(base_url, model.model, stated)
        return ParseDict(known.model_dump(mode="json"), tool_pb2.LlmCapabilities())
