"""Every kind of tool is read, and answers come back from the wire as they were."""

import pytest

from podium.registry.v1 import tool_pb2
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.metering import Usage, UsageSource
from tool_adapters.adapter import Answer, Output, OutputFile
from tool_adapters.convert import answer_from_proto, answer_to_proto
from tool_adapters.convert_tools import tool_from_proto
from tool_adapters.models import ToolKind

USAGE = Usage.of(UsageSource.PROVIDER, input_fresh=3, output_text="2")


@pytest.mark.parametrize("kind", list(ToolKind))
def test_every_kind_has_a_connection(kind: ToolKind) -> None:
    tool = tool_pb2.Tool(version=1)
    tool.spec.kind = tool_pb2.ToolKind.Value(f"TOOL_KIND_{kind.name}")
    getattr(tool.spec.connection, kind.value).SetInParent()
    if kind is ToolKind.MCP:
        tool.spec.connection.mcp.stdio.server = "server"
    assert tool_from_proto(tool).kind is kind


@pytest.mark.parametrize(
    "outcome",
    [
        Output("4", '{"sum": 4}', (OutputFile("plot.png", "image/png", b"\x89PNG"),)),
        ToolFailure(FailureKind.RATE_LIMITED, "slow down", True, 1.5),
        ToolFailure(FailureKind.TOOL_ERROR, "no"),
    ],
)
def test_an_answer_comes_back_from_the_wire_as_it_was(outcome: Output | ToolFailure) -> None:
    answer = Answer(outcome, USAGE, "sku", 0.25, 2)
    assert answer_from_proto(answer_to_proto(answer)) == answer
