"""Resources of the operator that tools on the wire call, and the operator's terms for them."""

from collections.abc import Set

from podium.registry.v1 import tool_pb2


def resource_of(spec: tool_pb2.ToolSpec) -> tuple[str, ...]:
    """The operator's resource that the tool calls; empty for one of its owner's own."""
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


def with_terms(own: bytes, operators: bytes, tags: Set[str], effect_known: bool) -> bytes:
    """The first spec with price, limits, side effect and tags that are not its owner's to state."""
    spec, theirs = tool_pb2.ToolSpec.FromString(own), tool_pb2.ToolSpec.FromString(operators)
    spec.sku, spec.provider = theirs.sku, theirs.provider
    spec.limits.CopyFrom(theirs.limits)
    spec.side_effect = theirs.side_effect if effect_known else tool_pb2.SIDE_EFFECT_EFFECTFUL
    if theirs.connection.WhichOneof("target") == "code":
        spec.connection.code.memory_bytes = theirs.connection.code.memory_bytes
    spec.tags[:] = sorted(tags)
    return spec.SerializeToString(deterministic=True)
