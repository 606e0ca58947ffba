"""Replays: episodes that call no tool with effects, and are answered by an earlier one's record.

A call is answered by tool and arguments: the first of two equal calls by the record's first, the
second by its second. A call that the record does not hold ends the episode, because any answer to
it would be made up. Calls that the policy denies are not made, as ever.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from cachetools import LRUCache

from episodes.execution.composites import is_composite
from episodes.execution.outcomes import Finished
from episodes.execution.tool_calls import EpisodeToolCall
from episodes.models import StopReason
from episodes.publication.store_outbox import OutboxStore
from episodes.step_log.log import StepLog
from episodes.step_log.running_episode import RunningEpisode
from podium.episodes.v1 import trajectory_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium_kit.tool_kinds import kind_of

RECORDS_MAX = 64
# Tool and canonical arguments.
CallKey = tuple[str, str]
Record = Mapping[CallKey, Sequence[trajectory_pb2.ToolInvocation]]


class Replays:
    """Answers the calls of replays. Records are cached: the episodes of a group share one."""

    def __init__(self, outbox: OutboxStore) -> None:
        self._outbox = outbox
        self._records: LRUCache[tuple[str, str], Record] = LRUCache(RECORDS_MAX)

    async def answer(
        self,
        episode: RunningEpisode,
        log: StepLog,
        turn: int,
        calls: Sequence[EpisodeToolCall],
    ) -> list[EpisodeToolCall] | Finished:
        """Returns the calls of a turn, those with effects answered; the end where one is not."""
        if not (replayed := episode.spec.replay_of):
            return list(calls)
        record = await self._record(episode.stored.new.tenant, replayed)
        answered, seen = [], Counter(_keys_before(log, turn))
        for call in calls:
            if call.tool is None or not has_effects(call.tool) or call.denial() is not None:
                answered.append(call)
                continue
            key = call_key(call.asked)
            place = seen[key]
            seen[key] += 1
            if call.done:
                answered.append(call)
                continue
            if place >= len(record.get(key, ())):
                often = f"only {place} times" if place else "not"
                return Finished(
                    StopReason.DIVERGED,
                    f"it called {call.name} with arguments that episode {replayed} called it with"
                    f" {often}, so nothing answers: {key[1][:200]}",
                )
            answered.append(replace(call, recorded=record[key][place], child=None))
        return answered

    async def _record(self, tenant: str, episode_id: str) -> Record:
        """Returns an empty record of an episode that retention has deleted meanwhile."""
        known = self._records.get((tenant, episode_id))
        if known is None:
            body = await self._outbox.trajectory(tenant, episode_id)
            found = trajectory_pb2.TrajectoryRecord.FromString(body or b"")
            known = self._records[tenant, episode_id] = recorded_calls(found.trajectory)
        return known


def has_effects(tool: toolset_pb2.ResolvedTool) -> bool:
    """Returns whether a call may change anything outside of its episode.

    A composite tool's own call writes text: what runs that is another call. Code runs in a
    workspace that is the episode's own and reaches nothing else.
    """
    if is_composite(tool) or tool.kind == tool_pb2.TOOL_KIND_CODE:
        return False
    reads = tool.side_effect == tool_pb2.SIDE_EFFECT_PURE
    return kind_of(tool.kind).starts_episode or not reads


def recorded_calls(trajectory: trajectory_pb2.Trajectory) -> Record:
    found: dict[CallKey, list[trajectory_pb2.ToolInvocation]] = defaultdict(list)
    for turn in trajectory.turns:
        for call in turn.tool_invocations:
            found[call_key(call.observation.call)].append(call)
            if call.HasField("executor"):
                found[call_key(call.executor.observation.call)].append(call.executor)
    return dict(found)


def call_key(call: pb.ToolCall) -> CallKey:
    """Arguments in one form, whatever their order and spacing; as they are where no JSON."""
    try:
        parsed = json.loads(call.arguments_json or "{}")
    except (ValueError, RecursionError):
        return call.tool_name, call.arguments_json
    return call.tool_name, json.dumps(parsed, sort_keys=True, ensure_ascii=False)


def note_recorded(
    record: trajectory_pb2.ToolInvocation, recorded: trajectory_pb2.ToolInvocation
) -> None:
    """Notes the result that was recorded, at no cost; its latency counts, and no one waits."""
    asked = pb.ToolCall()
    asked.CopyFrom(record.observation.call)
    record.observation.CopyFrom(recorded.observation)
    record.observation.call.CopyFrom(asked)
    record.latency.CopyFrom(recorded.latency)
    record.latency_modelled = True


def _keys_before(log: StepLog, turn: int) -> Iterator[CallKey]:
    for calls in (log.tool_calls, log.executor_calls):
        for number, made in calls.items():
            if number < turn:
                yield from (call_key(each.observation.call) for each in made.values())
