"""Composite tools: a model writes what another tool runs.

The model's reply is a step of its own, which no retry buys again. What it wrote becomes a call of
the executor, with the same index: decided by the policy, held, made, logged and charged like any
other. A reply that is not whole is never run.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

from episodes.execution.tool_calls import EpisodeToolCall
from episodes.keys import StepKind
from episodes.step_log.log import WRITTEN_CHARACTERS_MAX, StepLog
from episodes.step_log.running_episode import RunningEpisode
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import trajectory_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1 import toolset_pb2
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.limits.json_cost import CostlyJson, require_bounded_json

THOUGHT_END = "</think>"
FENCE = "```"
CALL, CALL_END = "<tool_call>", "</tool_call>"


def is_composite(tool: toolset_pb2.ResolvedTool) -> bool:
    return tool.HasField("executor") or tool.delegates


def reject_cut_text(record: trajectory_pb2.ToolInvocation) -> None:
    """Makes a failure of a reply that is not whole: nothing runs it."""
    written = record.observation.content
    record.observation.failure.kind = failure_pb2.FAILURE_KIND_MALFORMED_OUTPUT
    record.observation.failure.message = (
        f"nothing was run, for the reply is not whole: {written[-WRITTEN_CHARACTERS_MAX:]}"
    )
    record.observation.content = ""


def written_calls(
    episode: RunningEpisode, log: StepLog, turn: int, calls: Sequence[EpisodeToolCall]
) -> list[EpisodeToolCall]:
    """Returns the calls that models wrote in a turn and that are not in the log yet."""
    written = []
    for call in calls:
        record = log.tool_calls.get(turn, {}).get(call.index)
        if record is None or log.has(turn, StepKind.EXECUTOR, call.index):
            continue
        if record.observation.HasField("failure") or record.cut_reason:
            continue
        if (found := _written_call(episode, call, record.observation.content)) is not None:
            written.append(found)
    return written


def with_approval_denied(call: EpisodeToolCall) -> EpisodeToolCall:
    """Returns the call, failed where the policy wants an approval that no one was asked for."""
    if not call.waits:
        return call
    message = f"{call.name} needs a person's approval by now, and the call had none"
    return replace(call, failure=ToolFailure(FailureKind.DENIED_BY_POLICY, message))


def _written_call(
    episode: RunningEpisode, composite: EpisodeToolCall, reply: str
) -> EpisodeToolCall | None:
    tool = composite.tool
    if tool is None:
        return None
    text = reply.rpartition(THOUGHT_END)[2]
    if tool.HasField("executor"):
        arguments = json.dumps({tool.executor_argument: argument_of(text)}, ensure_ascii=False)
        asked = pb.ToolCall(
            index=composite.index, tool_name=tool.executor.name, arguments_json=arguments
        )
        return EpisodeToolCall(
            asked, tool.executor, approval=composite.approval, composite=composite
        )
    if not tool.delegates or (found := delegated_call(text)) is None:
        return None
    name, arguments = found
    asked = pb.ToolCall(index=composite.index, tool_name=name, arguments_json=arguments)
    offered = {each.name: each for each in episode.offered_to_delegates()}
    return EpisodeToolCall(asked, offered.get(name), composite=composite)


def argument_of(text: str) -> str:
    """Returns the fenced blocks of a text, one below the other; all of a text without any."""
    blocks = []
    for part in text.split(FENCE)[1::2]:
        language, newline, block = part.partition("\n")
        blocks.append(block.rstrip() if newline else language)
    return "\n".join(blocks) if blocks else text.strip()


def delegated_call(text: str) -> tuple[str, str] | None:
    """Returns the tool's name and the arguments of the call in a text; None for a text that is an
    answer."""
    _, tag, after = text.partition(CALL)
    body = after.partition(CALL_END)[0] if tag else argument_of(text)
    try:
        require_bounded_json(body.encode())
        call = json.loads(body)
    except (CostlyJson, ValueError, RecursionError):
        return None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return None
    arguments = call.get("arguments") or {}
    return call["name"], arguments if isinstance(arguments, str) else json.dumps(arguments)
