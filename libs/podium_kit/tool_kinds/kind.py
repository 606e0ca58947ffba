from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from podium.orchestrator.v1 import orchestrator_service_pb2
from podium.registry.v1 import tool_pb2


def _nothing_to_check(spec: tool_pb2.ToolSpec) -> None:
    """The contract's bounds are enough."""


def _owners_own(connection: tool_pb2.Connection) -> tuple[str, ...]:
    return ()


def _without_address(connection: tool_pb2.Connection) -> tool_pb2.Connection:
    shown = tool_pb2.Connection()
    getattr(shown, str(connection.WhichOneof("target"))).SetInParent()
    return shown


def whole(connection: tool_pb2.Connection) -> tool_pb2.Connection:
    """Shows all of a connection that reaches nothing outside of the platform and has no secret."""
    return connection


def _nothing_to_bind(own: tool_pb2.Connection, operators: tool_pb2.Connection) -> None:
    """The connection has no limits of its own."""


@dataclass(frozen=True, eq=False)
class ToolKind:
    """A kind of tools: the rules of its connection, and what the services do differently for it."""

    name: str
    """Its word in manifests, its field of Connection, and in upper case its value on the wire."""
    summary: str = ""
    """Its calls in a few words, with which its row in the adapters' README begins."""
    not_registered: str = ""
    """The reason why such a tool cannot be registered; empty for a kind that can."""
    check: Callable[[tool_pb2.ToolSpec], None] = _nothing_to_check
    """Checks the rules of a spec beyond the contract's bounds. Raises InvalidTool."""
    check_tenants: Callable[[tool_pb2.ToolSpec], None] = _nothing_to_check
    """Checks rules that hold for tenants' specs alone. Raises InvalidTool."""
    public: Callable[[tool_pb2.Connection], tool_pb2.Connection] = _without_address
    """Returns what others than its owner may read of a connection."""
    resource: Callable[[tool_pb2.Connection], tuple[str, ...]] = _owners_own
    """Returns the operator's resource that the tool calls; empty for one of its owner's own."""
    bind: Callable[[tool_pb2.Connection, tool_pb2.Connection], None] = _nothing_to_bind
    """Sets the limits in a tenant's connection that are in the operator's for the same resource."""
    shared_only: bool = False
    """True if a tenant's tool needs a shared one of the same resource."""
    priced_by_operator: bool = False
    """True if the resource is priced by the operator, also where no shared tool offers it."""
    has_models: bool = False
    """True if calls choose a language model, are priced by it and use its tokens."""
    starts_episode: bool = False
    """True if a call starts an episode, whose calls have prices of their own."""
    general: bool = False
    """True if such a tool is right for tasks of any kind."""
    stateful: bool = False
    """True if an episode's calls share a session or files, which its end closes."""
    may_run_long: bool = False
    """True if a call that takes too long is the caller's fault rather than the tool's."""
    result_section: str = "attempt"
    """The section of the prompt that a result belongs to; see ResultSection."""

    @property
    def executes(self) -> bool:
        """Returns whether such a tool can run what a model writes, with no episode of its own."""
        return not (self.not_registered or self.has_models or self.starts_episode)

    @cached_property
    def number(self) -> tool_pb2.ToolKind.ValueType:
        return tool_pb2.ToolKind.Value(f"TOOL_KIND_{self.name.upper()}")

    @cached_property
    def section(self) -> orchestrator_service_pb2.ResultSection.ValueType:
        name = f"RESULT_SECTION_{self.result_section.upper()}"
        return orchestrator_service_pb2.ResultSection.Value(name)
