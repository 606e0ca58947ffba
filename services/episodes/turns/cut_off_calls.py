"""Calls that an episode's end cut off, or that it no longer waited for.

Money is held for them and no step says what became of them: they may have been made, and billed.
So each becomes a step of unknown cost, with the reason. What had certainly not begun is none.
"""

from dataclasses import dataclass

from episodes.charges.service import Charges
from episodes.checks import tools_of_check
from episodes.keys import StepKind, effect_place
from episodes.models import StopReason
from episodes.running_episode import RunningEpisode
from episodes.steps.log import Body, StepLog, StepLogs, unknown
from episodes.workflows.payloads import TurnResult
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import trajectory_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.wire import failure_from_proto, failure_to_proto

REASON = "the call was cut off by the episode's end; whether it was made is not known"
KINDS = {StopReason.CANCELLED: FailureKind.CANCELLED, StopReason.DEADLINE: FailureKind.TIMEOUT}


@dataclass(frozen=True)
class CutOffCalls:
    """Ends the holds that an episode leaves."""

    logs: StepLogs
    charges: Charges

    async def settle(self, episode: RunningEpisode, log: StepLog, stop: StopReason) -> None:
        """Gives back what was held for calls that had not begun, and logs and charges the others.

        They are logged first: whoever repeats this finds them, or their holds.
        """
        keys = await self.charges.release(episode, log)
        failure = failure_to_proto(ToolFailure(KINDS.get(stop, FailureKind.UNAVAILABLE), REASON))
        known = {step.key: step for step in log.steps}
        missing = [
            (*effect_place(key), _body(episode, log, key, failure))
            for key in keys
            if key not in known
        ]
        if missing:
            await self.logs.append(log, missing)
        await self.charges.settle_and_reserve(episode, log, [])
        for key in keys:
            if key in known:
                await self.charges.settle_as_unknown(log, known[key], REASON)


def ending_after_cut_off(log: StepLog, turn: int) -> TurnResult | None:
    """How the episode is being ended, or has been, by whoever cut off the turn's model call."""
    if not log.model_calls[turn].HasField("failure"):
        return None
    kind = failure_from_proto(log.model_calls[turn].failure).kind
    stop = next((stop for stop in KINDS if KINDS[stop] is kind), StopReason.FAILED)
    return TurnResult(stop=stop, message=REASON)


def _body(episode: RunningEpisode, log: StepLog, key: str, failure: failure_pb2.Failure) -> Body:
    turn, kind, index = effect_place(key)
    if kind is StepKind.MODEL:
        return trajectory_pb2.ModelCall(key=key, failure=failure)
    if kind is StepKind.TOOL:
        asked = log.model_calls[turn].response.action.tool_calls.calls
        call = next(each for each in asked if each.index == index)
    else:
        names = tools_of_check(episode.spec)
        call = pb.ToolCall(index=index, tool_name=names[index] if index < len(names) else "")
    tool = episode.tool(call.tool_name)
    return trajectory_pb2.ToolInvocation(
        key=key,
        observation=pb.Observation(call=call, failure=failure),
        tool_version=tool.version if tool else 0,
        usage=unknown(failure),
    )
