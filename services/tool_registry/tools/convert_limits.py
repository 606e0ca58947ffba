"""What one tool may ask of processes that serve the tools of every tenant."""

from podium.registry.v1 import tool_pb2
from tool_registry.errors import InvalidTool

MIB = 1024 * 1024
CEILINGS = {"max_concurrency": 256, "max_output_bytes": 16 * MIB, "max_attempts": 10}
MEMORY_BYTES_MAX = 4096 * MIB


def check_limits(spec: tool_pb2.ToolSpec) -> None:
    """Raises InvalidTool, naming the field. 0 is the default of each."""
    for name, ceiling in CEILINGS.items():
        _require(f"limits.{name}", getattr(spec.limits, name), ceiling)
    _require("connection.code.memory_bytes", spec.connection.code.memory_bytes, MEMORY_BYTES_MAX)


def _require(field: str, value: int, ceiling: int) -> None:
    if not 0 <= value <= ceiling:
        raise InvalidTool(f"{field} is {value}; give 0 to {ceiling}")
