"""The tool calls of a verifier: resolved, held, made and logged like an episode's own."""

import json
from dataclasses import dataclass

from episodes.charges.purchases import (
    Purchase,
    call_worst_case,
    model_alias,
    model_problem,
    most_tokens,
    sku_of,
    timeout_s,
    token_worst_case,
)
from episodes.charges.service import Charges, Grant
from episodes.clients import Adapters, RegistryClient
from episodes.keys import StepKind, effect_key, verifier_session
from episodes.running_episode import RunningEpisode
from episodes.steps.log import StepLog, StepLogs
from episodes.temporal.activity_errors import TRANSIENT
from episodes.turns.platform_faults import ask_adapters
from episodes.turns.tool_records import rejected
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.episodes.v1 import trajectory_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium_kit.rpc.errors import DomainError
from podium_kit.verifiers import Unjudged, VerifierCall
from podium_kit.wire import failure_to_proto


@dataclass(frozen=True)
class VerifierCalls:
    """Makes the calls verifiers need."""

    registry: RegistryClient
    adapters: Adapters
    charges: Charges
    logs: StepLogs

    async def result(
        self, episode: RunningEpisode, steps: StepLog, turn: int, index: int, call: VerifierCall
    ) -> str:
        """What the tool gave. Raises Unjudged when it gave nothing."""
        if index not in steps.verifier_calls:
            try:
                record = await self._make(episode, steps, turn, index, call)
            except TRANSIENT:
                raise
            except DomainError as error:
                raise Unjudged(f"{call.tool} cannot be called: {error.message}") from error
            await self.logs.append(steps, [(turn, StepKind.VERIFIER, index, record)])
        observation = steps.verifier_calls[index].observation
        if observation.HasField("failure"):
            raise Unjudged(f"{call.tool} failed: {observation.failure.message}")
        return observation.content

    async def _make(
        self, episode: RunningEpisode, steps: StepLog, turn: int, index: int, call: VerifierCall
    ) -> trajectory_pb2.ToolInvocation:
        tool = await self._resolve(episode, call.tool)
        asked = pb.ToolCall(
            index=index, tool_name=call.tool, arguments_json=json.dumps(call.arguments)
        )
        if problem := model_problem(asked, tool):
            raise Unjudged(problem.message)
        purchase = _purchase(episode, turn, asked, tool, call)
        record = trajectory_pb2.ToolInvocation(
            key=purchase.key,
            observation=pb.Observation(call=asked),
            tool_version=tool.version,
            model=purchase.model,
        )
        [reply] = await self.charges.settle_and_reserve(episode, steps, [purchase])
        if not isinstance(reply, Grant):
            record.observation.failure.CopyFrom(failure_to_proto(rejected(reply)))
            return record
        record.granted_output_tokens = reply.output_tokens
        steps.unsent.discard(record.key)
        await self._invoke(episode, tool, call, record)
        return record

    async def _resolve(self, episode: RunningEpisode, name: str) -> toolset_pb2.ResolvedTool:
        """The tool of the episode, or one that its policy allows but its model was not shown."""
        if tool := episode.tool(name):
            return tool
        toolset = await self.registry.resolve(episode.stored.new.policy_name, [name])
        return next(tool for tool in toolset.tools if tool.name == name)

    async def _invoke(
        self,
        episode: RunningEpisode,
        tool: toolset_pb2.ResolvedTool,
        call: VerifierCall,
        record: trajectory_pb2.ToolInvocation,
    ) -> None:
        request = adapters_pb.InvokeRequest(
            key=record.key,
            episode_id=episode.id if call.in_episode else verifier_session(episode.id),
            tool_name=tool.name,
            tool_version=tool.version,
            arguments_json=record.observation.call.arguments_json,
            task=call.task,
            model_alias=record.model,
            max_output_tokens=record.granted_output_tokens or tool.max_output_tokens,
        )
        response = await ask_adapters(self.adapters, request, tool, record)
        if response is not None and response.output.content_json:
            record.observation.content = response.output.content_json


def _purchase(
    episode: RunningEpisode,
    turn: int,
    asked: pb.ToolCall,
    tool: toolset_pb2.ResolvedTool,
    call: VerifierCall,
) -> Purchase:
    alias = model_alias(asked, tool)
    worst_case = call_worst_case(timeout_s(tool))
    if tool.kind == tool_pb2.TOOL_KIND_LLM:
        size = len(call.task.encode()) + asked.ByteSize() + tool.prompt_bytes
        worst_case = token_worst_case(most_tokens(size), tool.max_output_tokens)
    return Purchase(
        key=effect_key(episode.id, turn, StepKind.VERIFIER, asked.index),
        turn=turn,
        tool=tool.name,
        model=alias,
        sku=sku_of(tool, alias),
        worst_case=worst_case,
    )
