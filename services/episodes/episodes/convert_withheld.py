"""Removal of content from episodes and events whose reader may see their metadata alone."""

from collections.abc import Iterable, Set

from google.protobuf.message import Message

from podium.common.v1 import failure_pb2
from podium.episodes.v1 import episode_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb

# All other fields are withheld, those of later versions included.
EPISODE_METADATA = frozenset(
    {
        "id",
        "spec",
        "state",
        "stop_reason",
        "failure",
        "turn_count",
        "tool_call_count",
        "cost",
        "unpriced_call_count",
        "usage",
        "policy_name",
        "policy_version",
        "toolset_digest",
        "create_time",
        "end_time",
        "children_cost",
        "children_unpriced_call_count",
        "all_tool_calls_failed",
        "called_tools",
        "failure_kinds",
        "score",
    }
)
SPEC_METADATA = frozenset(
    {
        "model",
        "policy",
        "tool_names",
        "turn_limit",
        "time_limit",
        "budget",
        "prompt_mode",
        "sampling",
        "group",
        "labels",
        "parent",
        "price_factors",
        "output_token_limit",
        "parallel_calls",
        "stream_answer",
    }
)
RETURNED_METADATA = frozenset({"observation", "cost", "latency", "usage", "child"})
EVENT_METADATA = {
    "started": frozenset({"tool_names", "policy_name", "policy_version"}),
    "action_decided": frozenset({"action", "cost", "latency", "usage", "model_version"}),
    "tool_returned": RETURNED_METADATA,
    "approval_requested": frozenset({"call", "expire_time", "reason", "price", "side_effect"}),
    "finished": frozenset({"episode"}),
    "verifier_called": RETURNED_METADATA,
    "judged": frozenset({"verifier", "verifier_version", "score", "answer_time"}),
    "client_calls_requested": frozenset({"calls"}),
}
CALL_METADATA = frozenset({"index", "tool_name"})


def withhold_content(episode: pb.Episode) -> None:
    _clear_others(episode, EPISODE_METADATA)
    _clear_others(episode.spec, SPEC_METADATA)
    if episode.HasField("failure"):
        _withhold_failure(episode.failure)
    episode.content_withheld = True


def withhold_event(event: pb.EpisodeEvent) -> None:
    kind = event.WhichOneof("event") or ""
    if not kind:
        return
    _clear_others(getattr(event, kind), EVENT_METADATA.get(kind, frozenset()))
    if event.HasField("action_decided"):
        action = event.action_decided.action
        _clear_others(action, {"tool_calls", "malformed"})
        if action.HasField("malformed"):
            _withhold_failure(action.malformed)
    elif kind in {"tool_returned", "verifier_called"}:
        observation = getattr(event, kind).observation
        _clear_others(observation, {"call", "failure"})
        if observation.HasField("failure"):
            _withhold_failure(observation.failure)
    for call in _calls(event):
        _clear_others(call, CALL_METADATA)
    event.content_withheld = True


def _calls(event: pb.EpisodeEvent) -> Iterable[orchestrator_pb.ToolCall]:
    match event.WhichOneof("event"):
        case "action_decided":
            return event.action_decided.action.tool_calls.calls
        case "approval_requested":
            return [event.approval_requested.call]
        case "client_calls_requested":
            return event.client_calls_requested.calls
        case "tool_returned" | "verifier_called" as kind:
            returned: pb.ToolReturned = getattr(event, kind)
            return [returned.observation.call]
        case _:
            return []


def _withhold_failure(failure: failure_pb2.Failure) -> None:
    _clear_others(failure, {"kind"})


def _clear_others(message: Message, names: Set[str]) -> None:
    for field, _ in message.ListFields():
        if field.name not in names:
            message.ClearField(field.name)
