import json
from dataclasses import dataclass
from typing import Any, Protocol

import grpc

from gateway.clients import answer
from gateway.clients_direct_calls import DirectCallsClient, MadeDirectCall
from gateway.convert import tally_of
from gateway.mcp_server.models import (
    OfferedTool,
    SideEffect,
    ToolFile,
    ToolOrder,
    ToolResult,
)
from podium.episodes.v1 import direct_call_service_pb2 as calls_pb
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium.registry.v1 import tool_registry_service_pb2 as registry_pb
from podium.registry.v1.tool_registry_service_pb2_grpc import ToolRegistryServiceStub
from podium_kit.rpc.errors import FailedPrecondition
from podium_kit.tool_kinds import kind_of
from podium_kit.wire import failure_from_proto, money_to_proto, optional_money_from_proto

# Only an episode can answer these.
EPISODES_OWN = (tool_pb2.TOOL_KIND_PODIUM, tool_pb2.TOOL_KIND_FIND_TOOLS)
SIDE_EFFECTS: dict[int, SideEffect] = {
    tool_pb2.SIDE_EFFECT_PURE: "pure",
    tool_pb2.SIDE_EFFECT_IDEMPOTENT: "idempotent",
}


class MadeToolCall(Protocol):
    async def result(self) -> ToolResult: ...


class PolicyTools(Protocol):
    async def offered(self) -> list[OfferedTool]: ...
    async def start(self, call_id: str, order: ToolOrder) -> MadeToolCall: ...


@dataclass(frozen=True)
class MadePolicyToolCall:
    made: MadeDirectCall

    async def result(self) -> ToolResult:
        return _result(await self.made.ended())


class PolicyToolsClient:
    def __init__(self, registry: grpc.aio.Channel, episodes: grpc.aio.Channel) -> None:
        self._registry = ToolRegistryServiceStub(registry)
        self._calls = DirectCallsClient(episodes)

    async def offered(self) -> list[OfferedTool]:
        try:
            reply = await answer(self._registry.ResolveToolset(registry_pb.ResolveToolsetRequest()))
        except FailedPrecondition:
            # A tenant that may use no preset and has activated no policy has no tools yet.
            return []
        found = [
            _offered(tool)
            for tool in reply.toolset.tools
            if tool.kind not in EPISODES_OWN and not tool.needs_approval
        ]
        return sorted(found, key=lambda tool: tool.name)

    async def start(self, call_id: str, order: ToolOrder) -> MadePolicyToolCall:
        """Starts it, or finds it started: the id makes a retry safe."""
        spec = calls_pb.DirectCallSpec(
            tool_name=order.tool,
            arguments_json=order.arguments_json,
            policy=order.policy,
            labels=order.labels,
        )
        if order.budget is not None:
            spec.budget.CopyFrom(money_to_proto(order.budget))
        return MadePolicyToolCall(await self._calls.make(call_id, spec))


def _offered(tool: toolset_pb2.ResolvedTool) -> OfferedTool:
    return OfferedTool(
        name=tool.name,
        version=tool.version,
        description=tool.description,
        parameters_schema=_parameters(tool),
        side_effect=SIDE_EFFECTS.get(tool.side_effect, "effectful"),
        price_per_call=optional_money_from_proto(tool.price_per_call),
    )


def _parameters(tool: toolset_pb2.ResolvedTool) -> dict[str, Any]:
    """Its own; a model has no task beside it, so it is asked in the call's words alone."""
    if not kind_of(tool.kind).has_models:
        return {"type": "object", **json.loads(tool.parameters_json_schema or "{}")}
    prompt = {"type": "string", "minLength": 1, "description": "what to do, in words"}
    model = {
        "type": "string",
        "enum": list(tool.model_aliases),
        "description": "which one answers",
    }
    return {
        "type": "object",
        "properties": {"prompt": prompt, "model": model},
        "required": ["prompt", "model"] if len(tool.model_aliases) > 1 else ["prompt"],
        "additionalProperties": False,
    }


def _result(call: calls_pb.DirectCall) -> ToolResult:
    return ToolResult(
        call_id=call.id,
        content=call.content,
        content_json=call.content_json,
        files=tuple(ToolFile(each.name, each.media_type, each.data) for each in call.files),
        failure=failure_from_proto(call.failure) if call.HasField("failure") else None,
        tally=tally_of(call.usage.quantities),
        cost=optional_money_from_proto(call.cost),
        tool_version=call.tool_version,
        policy_name=call.policy_name,
        policy_version=call.policy_version,
    )
