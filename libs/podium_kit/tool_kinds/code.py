from podium.registry.v1 import tool_pb2
from podium_kit.tool_kinds.kind import ToolKind, whole


def _bind(own: tool_pb2.Connection, operators: tool_pb2.Connection) -> None:
    own.code.memory_bytes = operators.code.memory_bytes


CODE = ToolKind(
    "code",
    "Python, isolated",
    public=whole,
    resource=lambda connection: ("code", "interpreter"),
    bind=_bind,
    priced_by_operator=True,
    general=True,
    stateful=True,
    may_run_long=True,
    result_section="code",
)
