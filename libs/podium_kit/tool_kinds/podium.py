from podium.registry.v1 import tool_pb2
from podium_kit.tool_kinds.checks import InvalidTool
from podium_kit.tool_kinds.kind import ToolKind

# An orchestrator and the one it calls.
DEPTH_MIN = 2


def _check(spec: tool_pb2.ToolSpec) -> None:
    depth = spec.connection.podium.max_depth
    if depth and depth < DEPTH_MIN:
        raise InvalidTool(
            f"connection.podium.max_depth is {depth}; give {DEPTH_MIN} or more,"
            f" or 0 for {DEPTH_MIN}"
        )
    if spec.sku:
        raise InvalidTool("sku is set, but what a tool of kind podium calls has its own prices")


PODIUM = ToolKind("podium", check=_check, starts_episode=True)
