"""Connections as the contract writes them, as the adapters see them."""

import pytest

from podium.registry.v1 import tool_pb2 as pb
from tool_adapters.convert_tools import connection_from_proto, tool_from_proto
from tool_adapters.errors import InvalidCall, KindUnsupported
from tool_adapters.models import LlmConnection, McpConnection, McpStdio, SideEffect


def test_unset_limits_are_the_ones_the_contract_names() -> None:
    connection = pb.Connection(function=pb.FunctionConnection(function="calculator"))
    spec = pb.ToolSpec(name="calculator", kind=pb.TOOL_KIND_FUNCTION, connection=connection)
    limits = tool_from_proto(pb.Tool(spec=spec, version=1)).limits
    assert (limits.timeout_s, limits.max_concurrency) == (30.0, 16)
    assert (limits.max_output_bytes, limits.max_attempts) == (65536, 2)


def test_an_unknown_side_effect_is_read_as_effectful() -> None:
    connection = pb.Connection(function=pb.FunctionConnection(function="calculator"))
    spec = pb.ToolSpec(name="calculator", kind=pb.TOOL_KIND_FUNCTION, connection=connection)
    assert tool_from_proto(pb.Tool(spec=spec)).side_effect is SideEffect.EFFECTFUL


def test_an_unset_temperature_is_the_providers_and_zero_is_zero() -> None:
    unset = connection_from_proto(pb.Connection(llm=pb.LlmConnection()))
    zero = connection_from_proto(pb.Connection(llm=pb.LlmConnection(temperature=0.0)))
    assert isinstance(unset, LlmConnection)
    assert isinstance(zero, LlmConnection)
    assert unset.temperature is None
    assert zero.temperature == 0.0


def test_a_model_without_an_api_is_rejected() -> None:
    llm = pb.LlmConnection(models=[pb.LlmModel(alias="small")])
    with pytest.raises(InvalidCall, match="small names no api"):
        connection_from_proto(pb.Connection(llm=llm))


def test_an_mcp_server_that_runs_as_a_process_is_a_name() -> None:
    stdio = pb.McpStdio(server="airline")
    mcp = connection_from_proto(pb.Connection(mcp=pb.McpConnection(stdio=stdio)))
    assert isinstance(mcp, McpConnection)
    assert mcp.transport == McpStdio("airline")


def test_a_connection_without_a_target_is_rejected() -> None:
    with pytest.raises(KindUnsupported):
        connection_from_proto(pb.Connection())
