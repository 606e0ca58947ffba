from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from podium.registry.v1 import tool_pb2
from podium_kit.rpc.bounds import OutOfBounds
from tool_registry.tools.checks import check_tool
from tool_registry.tools.convert import new_spec_from_proto

TIB = 2**40


def register(memory_bytes: int = 0, **limits: Any) -> None:
    code = tool_pb2.CodeConnection(memory_bytes=memory_bytes)
    spec = tool_pb2.ToolSpec(
        name="run",
        kind=tool_pb2.TOOL_KIND_CODE,
        description="Runs code.",
        parameters_json_schema='{"type": "object"}',
        side_effect=tool_pb2.SIDE_EFFECT_PURE,
        connection=tool_pb2.Connection(code=code),
        limits=tool_pb2.ToolLimits(**limits),
    )
    check_tool(new_spec_from_proto(spec), shared=False)


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"max_output_bytes": TIB}, "limits.max_output_bytes"),
        ({"max_concurrency": 1_000_000}, "limits.max_concurrency"),
        ({"max_attempts": 11}, "limits.max_attempts"),
        ({"timeout": Duration(seconds=3601)}, "limits.timeout"),
        ({"memory_bytes": TIB}, "connection.code.memory_bytes"),
        ({"max_output_bytes": -1}, "limits.max_output_bytes"),
        ({"max_concurrency": -1}, "limits.max_concurrency"),
        ({"timeout": Duration(seconds=-1)}, "limits.timeout"),
        ({"memory_bytes": -1}, "connection.code.memory_bytes"),
    ],
)
def test_a_limit_beyond_the_platforms_is_rejected_with_what_to_give(
    limits: dict[str, Any], field: str
) -> None:
    with pytest.raises(OutOfBounds, match=f"^{field} is .*; give 0 to "):
        register(**limits)


def test_each_limit_may_be_left_out_or_be_the_highest() -> None:
    register()
    register(
        memory_bytes=4 * 2**30,
        max_output_bytes=16 * 2**20,
        max_concurrency=256,
        max_attempts=10,
        timeout=Duration(seconds=3600),
    )
