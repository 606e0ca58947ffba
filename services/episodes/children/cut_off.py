"""Children whose answers their caller no longer waits for.

An episode that is cancelled or out of time ends its children first, but takes no more turns
to hear from them. Its trajectory refers to them all the same, or their cost would be in no sum.
"""

from dataclasses import dataclass

from episodes.children.answers import ChildAnswers
from episodes.children.calls import child_call
from episodes.keys import StepKind, effect_key
from episodes.running_episode import RunningEpisode
from episodes.steps.log import Body, StepLog, StepLogs
from episodes.workflows.payloads import ChildCall, EpisodeResult
from podium.episodes.v1 import trajectory_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb


@dataclass(frozen=True)
class CutOffChildren:
    """Logs the calls of an episode's last turn that children were started for."""

    logs: StepLogs
    children: ChildAnswers

    async def log(self, episode: RunningEpisode, steps: StepLog, ended: EpisodeResult) -> None:
        """Logs those that are not in the log yet; `ended` is how the episode itself ended."""
        turn = max(steps.model_calls, default=0)
        if not turn:
            return
        done: list[tuple[int, StepKind, int, Body]] = []
        for call in steps.model_calls[turn].response.action.tool_calls.calls:
            if steps.has(turn, StepKind.TOOL, call.index):
                continue
            if record := await self._record(episode, turn, call, ended):
                done.append((turn, StepKind.TOOL, call.index, record))
        if done:
            await self.logs.append(steps, done)

    async def _record(
        self, episode: RunningEpisode, turn: int, call: pb.ToolCall, ended: EpisodeResult
    ) -> trajectory_pb2.ToolInvocation | None:
        """What a call's child came to; None when the call started none."""
        tool, child = episode.tool(call.tool_name), child_call(episode, turn, call)
        if tool is None or not isinstance(child, ChildCall):
            return None
        if await self.children.find(child.episode_id) is None:
            return None
        record = trajectory_pb2.ToolInvocation(
            key=effect_key(episode.id, turn, StepKind.TOOL, call.index),
            observation=pb.Observation(call=call),
            tool_version=tool.version,
        )
        await self.children.fill(record, child.episode_id, tool, ended)
        return record
