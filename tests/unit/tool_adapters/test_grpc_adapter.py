"""Tools of kind grpc: what a call needs before it leaves."""

from typing import Any

import pytest

from tool_adapters.adapter import NOTHING_USED, ToolCall
from tool_adapters.calls.attempts import Attempts, CallProgress
from tool_adapters.grpc.adapter import GrpcAdapter
from tool_adapters.models import GrpcConnection, SideEffect, ToolDefinition, ToolKind
from tool_adapters.secret_store import MountedSecrets


@pytest.mark.parametrize("variables", [{}, {"TOOL_ADAPTERS_SECRET_ACME__KEY": "two\nlines"}])
async def test_a_call_without_a_usable_secret_is_free(variables: dict[str, str]) -> None:
    no_methods: Any = None
    secrets = MountedSecrets(None, variables)
    attempts = Attempts({ToolKind.GRPC: GrpcAdapter(no_methods, secrets)})
    tool = ToolDefinition(
        name="quote",
        version=1,
        kind=ToolKind.GRPC,
        parameters_schema={"type": "object"},
        result_schema=None,
        connection=GrpcConnection("quotes.example.com:443", "quotes.Quotes/Get", secret="key"),
        side_effect=SideEffect.PURE,
    )
    call = ToolCall("k", "e", "quote", 1, {}, "", "", 0, "acme")
    answer = await attempts.make(CallProgress(call, tool))
    assert (answer.usage.quantities, answer.unsent) == (NOTHING_USED.quantities, True)
