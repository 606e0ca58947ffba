from collections.abc import Sequence

from podium.registry.v1 import tool_pb2
from podium_kit.attachments import MediaKind
from podium_kit.http_headers import header_problem
from podium_kit.tool_kinds.checks import InvalidTool, check_url, require_tls
from podium_kit.tool_kinds.kind import ToolKind
from podium_kit.wire.values import KIND_FROM_WIRE

# Fields that decide who is asked what, what is charged and how the reply is read.
WRITTEN_FIELDS = frozenset(
    {"model", "messages", "input", "system", "instructions", "stream", "stream_options", "store"}
    | {"max_tokens", "max_completion_tokens", "max_output_tokens", "n", "tools", "tool_choice"}
    | {"functions", "temperature", "top_p", "service_tier", "reasoning_effort", "verbosity"}
    | {"background", "modalities", "response_format", "previous_response_id"}
)
# Roles of models whose text another tool can run.
WRITING_ROLES = (tool_pb2.LLM_ROLE_GENERALIST, tool_pb2.LLM_ROLE_SPECIALIST)
WRITTEN_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "content-type", "accept"})


def models_of(spec: tool_pb2.ToolSpec) -> Sequence[tool_pb2.LlmModel]:
    """Returns the models of a tool, none of one that has no models."""
    return spec.connection.llm.models


def _check(spec: tool_pb2.ToolSpec) -> None:
    llm = spec.connection.llm
    embeds = llm.role == tool_pb2.LLM_ROLE_EMBEDDER
    if embeds and spec.gives_answer:
        raise InvalidTool("gives_answer is set, but no episode gets an embedder; leave it out")
    _check_result(spec)
    for index, model in enumerate(llm.models):
        field = f"connection.llm.models[{index}]"
        if embeds != (model.api == tool_pb2.LLM_API_OPENAI_EMBEDDINGS) and model.api:
            raise InvalidTool(
                f"{field}.api does not fit connection.llm.role: the role embedder and the api"
                " openai_embeddings go together"
            )
        _check_endpoints(field, model)
        _check_takes(f"{field}.takes", model, embeds=embeds)
        _check_options(f"{field}.options", model)


def _check_result(spec: tool_pb2.ToolSpec) -> None:
    llm = spec.connection.llm
    delegates = llm.role == tool_pb2.LLM_ROLE_DELEGATE
    if llm.HasField("executor") and llm.role not in WRITING_ROLES:
        raise InvalidTool(
            "connection.llm.executor is for the roles generalist and specialist; leave it out, or"
            " change connection.llm.role"
        )
    if spec.gives_answer and (delegates or llm.HasField("executor")):
        raise InvalidTool(
            "gives_answer is set, but what a composite tool gives is a result and no answer; leave"
            " it out"
        )


def _check_endpoints(field: str, model: tool_pb2.LlmModel) -> None:
    if not model.endpoints:
        if not model.base_url:
            raise InvalidTool(f"{field}.base_url is empty; give it, or several endpoints")
        check_url(f"{field}.base_url", model.base_url)
        return
    if model.base_url or model.secret.name:
        unused = "base_url" if model.base_url else "secret"
        raise InvalidTool(f"{field}.{unused} is set beside endpoints, which have their own")
    for index, endpoint in enumerate(model.endpoints):
        place = f"{field}.endpoints[{index}]"
        check_url(f"{place}.base_url", endpoint.base_url)
        if endpoint in model.endpoints[:index]:
            raise InvalidTool(f"{place} is there twice; give it once")


def _check_tenants(spec: tool_pb2.ToolSpec) -> None:
    for index, model in enumerate(spec.connection.llm.models):
        field = f"connection.llm.models[{index}]"
        require_tls(f"{field}.base_url", model.base_url)
        for place, endpoint in enumerate(model.endpoints):
            require_tls(f"{field}.endpoints[{place}].base_url", endpoint.base_url)


def _check_takes(field: str, model: tool_pb2.LlmModel, *, embeds: bool) -> None:
    if embeds and model.takes:
        raise InvalidTool(f"{field} is set, but an embedder takes text alone; leave it out")
    if not set(model.takes) <= KIND_FROM_WIRE.keys():
        raise InvalidTool(f"{field} holds a kind that is unset; give {', '.join(MediaKind)}")
    if len(set(model.takes)) < len(model.takes):
        raise InvalidTool(f"{field} names a kind twice; name it once")


def _check_options(field: str, model: tool_pb2.LlmModel) -> None:
    options = model.options
    if model.api == tool_pb2.LLM_API_OPENAI_EMBEDDINGS and options.ByteSize():
        raise InvalidTool(f"{field} is set, but an embedder has no options; leave it out")
    if options.verbosity and model.api == tool_pb2.LLM_API_ANTHROPIC_MESSAGES:
        raise InvalidTool(f"{field}.verbosity is OpenAI's; leave it out")
    if written := sorted(WRITTEN_FIELDS & set(options.body)):
        raise InvalidTool(f"{field}.body.{written[0]} is written by Podium; leave it out")
    for name, value in options.headers.items():
        if problem := header_problem(name, value):
            raise InvalidTool(f"{field}.headers: {problem}")
        if name.lower() in WRITTEN_HEADERS:
            raise InvalidTool(f"{field}.headers.{name} is written by Podium; name a secret instead")


def _public(connection: tool_pb2.Connection) -> tool_pb2.Connection:
    """Shows of models what a caller chooses and policies decide by."""
    shown = tool_pb2.Connection(
        llm=tool_pb2.LlmConnection(
            role=connection.llm.role, max_output_tokens=connection.llm.max_output_tokens
        )
    )
    if connection.llm.HasField("executor"):
        shown.llm.executor.CopyFrom(connection.llm.executor)
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


LLM = ToolKind(
    "llm",
    "OpenAI and Anthropic APIs",
    check=_check,
    check_tenants=_check_tenants,
    public=_public,
    has_models=True,
)
