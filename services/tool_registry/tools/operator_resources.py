"""Resources of the operator that tools of tenants name: functions, the sandbox, programs that speak
MCP, corpora.

A name is a tenant's to choose; what is called under it is the operator's. So a tenant's tool of a
resource that a shared tool offers has that tool's price, limits and side effect, and every rule of
a policy for that tool is one for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from podium.registry.v1 import tool_pb2
from podium_kit.metering import OWN, is_own
from tool_registry.errors import InvalidTool
from tool_registry.models import ToolKind, ToolSpec, ToolVersion

PRICED_BY_OPERATOR = {ToolKind.FUNCTION, ToolKind.CODE}
Versions = Mapping[str, tuple[ToolVersion, ...]]


@dataclass(frozen=True, eq=False)
class OperatorResources:
    """Shared tools by what they call: a resource, and the server that it is part of."""

    by_resource: Mapping[tuple[str, ...], Sequence[ToolSpec]]

    @classmethod
    def of(cls, shared: Versions) -> "OperatorResources":
        """Also a tool that was withdrawn says what its resource costs and does."""
        found: dict[tuple[str, ...], list[ToolSpec]] = {}
        for versions in shared.values():
            current = [version for version in versions if version.current]
            spec = (current or versions)[-1].spec
            for end in range(2, len(spec.resource) + 1):
                found.setdefault(spec.resource[:end], []).append(spec)
        return cls(found)

    def check(self, spec: ToolSpec) -> None:
        """Raises InvalidTool for a tenant's tool that would call what only shared tools may."""
        if not spec.resource or spec.resource in self.by_resource:
            return
        if offered := self._of_server(spec):
            names = ", ".join(each.name for each in offered)
            raise InvalidTool(
                f"{spec.resource[-1]} of the server {spec.resource[1]} is not offered to tenants; "
                f"the platform's tools of it are {names}"
            )
        if spec.kind in PRICED_BY_OPERATOR and is_own(spec.sku):
            raise InvalidTool(
                f"sku {spec.sku} is one that a tenant prices, and {' '.join(spec.resource)} is the "
                f"operator's; name it without {OWN!r}, like tool/{spec.name}"
            )

    def bound(self, versions: tuple[ToolVersion, ...]) -> tuple[ToolVersion, ...]:
        """A tenant's tool with what the operator lays down for its resource."""
        return tuple(map(self._bound, versions))

    def _bound(self, version: ToolVersion) -> ToolVersion:
        spec = version.spec
        own = self.by_resource.get(spec.resource, ())
        if not (operators := own or self._of_server(spec)):
            return version
        # The one that the tenant names by its price, where several offer the resource.
        operator = next((each for each in operators if each.sku == spec.sku), operators[0])
        return replace(version, spec=_with_terms(spec, operator, operators, known=bool(own)))

    def _of_server(self, spec: ToolSpec) -> Sequence[ToolSpec]:
        """Shared tools of the same server that call something else of it."""
        return self.by_resource.get(spec.resource[:2], ()) if len(spec.resource) > 2 else ()


NO_RESOURCES = OperatorResources({})


def resource_of(spec: tool_pb2.ToolSpec) -> tuple[str, ...]:
    """What of the operator's the tool calls; empty for what is its owner's own."""
    connection = spec.connection
    match connection.WhichOneof("target"):
        case "function":
            return ("function", connection.function.function)
        case "code":
            return ("code", "interpreter")
        case "mcp" if connection.mcp.WhichOneof("transport") == "stdio":
            return ("mcp", connection.mcp.stdio.server, connection.mcp.tool_name)
        case "retrieval":
            return ("corpus", connection.retrieval.corpus)
    return ()


def _with_terms(
    spec: ToolSpec, operator: ToolSpec, operators: Iterable[ToolSpec], *, known: bool
) -> ToolSpec:
    theirs = tool_pb2.ToolSpec.FromString(operator.wire)
    wire = tool_pb2.ToolSpec.FromString(spec.wire)
    wire.sku = theirs.sku
    wire.provider = theirs.provider
    wire.limits.CopyFrom(theirs.limits)
    wire.side_effect = theirs.side_effect if known else tool_pb2.SIDE_EFFECT_EFFECTFUL
    if theirs.connection.WhichOneof("target") == "code":
        wire.connection.code.memory_bytes = theirs.connection.code.memory_bytes
    tags = {tag for each in operators for tag in each.tags}
    wire.tags.extend(sorted(tags - spec.tags))
    return replace(
        spec,
        sku=operator.sku,
        provider=operator.provider,
        timeout_s=operator.timeout_s,
        tags=spec.tags | tags,
        aliases=frozenset(each.name for each in operators),
        wire=wire.SerializeToString(deterministic=True),
    )
