"""A tool as the adapters see it: one immutable version, and how to reach it."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from podium_kit.tool_kinds import ToolKind

JsonObject = dict[str, Any]


class SideEffect(StrEnum):
    PURE = "pure"
    IDEMPOTENT = "idempotent"
    EFFECTFUL = "effectful"


@dataclass(frozen=True)
class FunctionConnection:
    function: str


class ArgumentPlace(StrEnum):
    PATH = "path"
    QUERY = "query"
    HEADER = "header"
    BODY = "body"
    COOKIE = "cookie"


@dataclass(frozen=True)
class HeaderAuth:
    header: str
    prefix: str
    secret: str


@dataclass(frozen=True)
class BasicAuth:
    """User name and password (RFC 7617); `secret` names the password."""

    username: str
    secret: str


@dataclass(frozen=True)
class QueryAuth:
    parameter: str
    secret: str


@dataclass(frozen=True)
class OAuth2Auth:
    """OAuth 2.0 client credentials (RFC 6749, section 4.4); `secret` names the client's."""

    token_url: str
    client_id: str
    secret: str
    scopes: tuple[str, ...] = ()


HttpAuth = HeaderAuth | BasicAuth | QueryAuth | OAuth2Auth


class Style(StrEnum):
    """The form of an argument of an HTTP operation, unless it is the default of its place."""

    COMMA_SEPARATED = "comma_separated"
    SPACE_SEPARATED = "space_separated"
    PIPE_SEPARATED = "pipe_separated"
    DEEP_OBJECT = "deep_object"
    FILE = "file"
    EXPLODED_OBJECT = "exploded_object"
    LABEL = "label"
    LABEL_COMMA = "label_comma"
    MATRIX = "matrix"
    MATRIX_COMMA = "matrix_comma"
    SIMPLE_EXPLODED = "simple_exploded"
    JSON = "json"


class BodyEncoding(StrEnum):
    JSON = "json"
    FORM = "form"
    MULTIPART = "multipart"
    TEXT = "text"


@dataclass(frozen=True)
class HttpConnection:
    """One operation of an HTTP API; `auth` None means it knows no callers.

    `keys` are further secrets that are sent besides. `wire_names` are those that arguments are sent
    under, where they are others; `body_argument` is the one that is the whole body.
    """

    method: str
    url_template: str
    places: Mapping[str, ArgumentPlace] = field(default_factory=dict)
    auth: HttpAuth | None = None
    keys: tuple[HeaderAuth | QueryAuth, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    wire_names: Mapping[str, str] = field(default_factory=dict)
    styles: Mapping[str, Style] = field(default_factory=dict)
    body_encoding: BodyEncoding = BodyEncoding.JSON
    body_argument: str = ""


@dataclass(frozen=True)
class McpStdio:
    """A server started as a process, by the name the operator defined it under."""

    server: str


@dataclass(frozen=True)
class McpHttp:
    url: str
    secret_headers: tuple[HeaderAuth, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class McpConnection:
    tool_name: str
    transport: McpStdio | McpHttp


@dataclass(frozen=True)
class CodeConnection:
    """`memory_bytes` 0 means the adapters' default."""

    stateful: bool = False
    memory_bytes: int = 0


@dataclass(frozen=True)
class RetrievalConnection:
    corpus: str
    default_top_k: int = 5


class LlmApi(StrEnum):
    OPENAI_CHAT = "openai_chat"
    ANTHROPIC_MESSAGES = "anthropic_messages"
    OPENAI_EMBEDDINGS = "openai_embeddings"
    OPENAI_RESPONSES = "openai_responses"


class LlmRole(StrEnum):
    GENERALIST = "generalist"
    SPECIALIST = "specialist"
    JUDGE = "judge"
    EMBEDDER = "embedder"
    DELEGATE = "delegate"


@dataclass(frozen=True)
class LlmOptions:
    """Settings of the requests to one model; see podium.registry.v1.LlmOptions."""

    reasoning_effort: str = ""
    verbosity: str = ""
    service_tier: str = ""
    body: JsonObject = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LlmModel:
    """A model at one of its endpoints."""

    alias: str
    model: str
    base_url: str
    api: LlmApi
    secret: str = ""
    sku: str = ""
    options: LlmOptions = LlmOptions()
    capabilities: JsonObject = field(default_factory=dict)
    """Capabilities that its owner states; the rest is its family's."""
    modelled_latency_s: float = 0.0
    """Seconds that a call of a simulated model counts as; 0 means that it is measured."""


@dataclass(frozen=True)
class LlmConnection:
    """A language model, or a choice of several, as a tool; without a prompt its role's.

    A model of several endpoints is in `models` once for each.
    """

    models: tuple[LlmModel, ...]
    role: LlmRole = LlmRole.GENERALIST
    system_prompt: str = ""
    max_output_tokens: int = 1024
    temperature: float | None = None


@dataclass(frozen=True)
class GrpcConnection:
    """Without a descriptor set the server is asked by reflection."""

    target: str
    method: str
    descriptor_set: bytes = b""
    secret: str = ""
    plaintext: bool = False


@dataclass(frozen=True)
class PodiumConnection:
    """Another orchestrator; "" leaves the caller's policy."""

    model: str
    policy: str = ""
    max_depth: int = 2


Connection = (
    FunctionConnection
    | HttpConnection
    | McpConnection
    | CodeConnection
    | RetrievalConnection
    | LlmConnection
    | GrpcConnection
    | PodiumConnection
)


@dataclass(frozen=True)
class Limits:
    timeout_s: float = 30.0
    max_concurrency: int = 16
    max_output_bytes: int = 65536
    max_attempts: int = 2


# Compared by identity: a version is fetched once, and its validators are kept with it.
@dataclass(frozen=True, eq=False)
class ToolDefinition:
    """One immutable version of a tool. `sku` "" means its price is unknown.

    A shared tool was written by the platform's operator, who may reach private addresses,
    start processes and use the platform's secrets; a tenant's tool may not.
    """

    name: str
    version: int
    kind: ToolKind
    parameters_schema: JsonObject
    result_schema: JsonObject | None
    connection: Connection
    side_effect: SideEffect
    limits: Limits = Limits()
    sku: str = ""
    shared: bool = False
    charges_unsent: bool = False

    @property
    def aliases(self) -> tuple[str, ...]:
        """The models of an llm tool, one of which every call states."""
        models = self.connection.models if isinstance(self.connection, LlmConnection) else ()
        return tuple(dict.fromkeys(model.alias for model in models))

    @property
    def resource(self) -> Hashable:
        """The resource that the limits are of: the operator's function, sandbox or program under
        whatever name; the tool itself where it is its owner's own."""
        match self.connection:
            case FunctionConnection(function):
                return ("function", function)
            case CodeConnection():
                return ("code",)
            case McpConnection(tool_name, McpStdio(server)):
                return ("mcp", server, tool_name)
        return self

    def modelled_latency_s(self, alias: str) -> float:
        """The stated latency of a model's call in seconds; 0 means that it is measured."""
        models = self.connection.models if isinstance(self.connection, LlmConnection) else ()
        return next((each.modelled_latency_s for each in models if each.alias == alias), 0.0)

    def samples(self, alias: str, temperature: float | None) -> bool:
        """Returns whether a model may answer otherwise each time, as one whose temperature is
        unset does at its provider; a temperature of None is the tool's. Vectors are not sampled."""
        if not isinstance(self.connection, LlmConnection):
            return False
        asked = (each for each in self.connection.models if each.alias == alias)
        if any(each.api is LlmApi.OPENAI_EMBEDDINGS for each in asked):
            return False
        return (self.connection.temperature if temperature is None else temperature) != 0


class Stage(StrEnum):
    INPUT = "input"
    OUTPUT = "output"
    ANSWER = "answer"


class Verdict(StrEnum):
    PASSED = "passed"
    FLAGGED = "flagged"
    REDACTED = "redacted"
    BLOCKED = "blocked"
    FAILED = "failed"


@dataclass(frozen=True)
class GuardrailDecision:
    guardrail: str
    stage: Stage
    verdict: Verdict
    reason: str = ""
    ledger_key: str = ""
