"""Turns of an episode: the model decides, its calls are made, and the next turn follows.

Every attempt starts from the step log, so a step that is done is never repeated: not after a crash
of this worker, nor when a second worker takes over.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from episodes.approvals.convert import approval_timeout_s
from episodes.execution.call_tools import ToolCallInvoker
from episodes.execution.children import child_call
from episodes.execution.composites import with_approval_denied, written_calls
from episodes.execution.decide import Decider, ending_after_block, ending_after_cuts
from episodes.execution.finish import ending_after_cut_off
from episodes.execution.local_tools import ClientCalls, wrong_arguments
from episodes.execution.outcomes import (
    ChildCall,
    Finished,
    Outcome,
    Released,
    TurnInput,
    Waiting,
)
from episodes.execution.policy_checks import PolicyChecks
from episodes.execution.replays import Replays
from episodes.execution.tool_calls import EpisodeToolCall
from episodes.execution.verify import answer_of
from episodes.keys import StepKind
from episodes.models import StopReason
from episodes.spending.worst_case import model_alias, model_problem
from episodes.step_log.log import Body, StepLog, StepLogs
from episodes.step_log.running_episode import RunningEpisode, RunningEpisodes
from episodes.step_log.settlements import Settlements
from episodes.webhooks.events import approval_requested
from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium_kit import telemetry
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.rpc.errors import FailedPrecondition
from podium_kit.wire import timestamp_to_proto

# The orchestrator's reason for a prompt that no shortening makes fit.
CONTEXT_TOO_LONG = "CONTEXT_TOO_LONG"


@dataclass(frozen=True)
class TurnRunner:
    episodes: RunningEpisodes
    logs: StepLogs
    decider: Decider
    invoker: ToolCallInvoker
    policies: PolicyChecks
    clients: ClientCalls
    replays: Replays
    settlements: Settlements

    async def run(
        self,
        episode: RunningEpisode,
        turn: TurnInput,
        *,
        is_retry: bool,
        release_reason: Callable[[int], str],
    ) -> Outcome:
        """Takes turn by turn until the episode ends, waits or is released.

        `is_retry` is set for every attempt but the first; `release_reason` is asked after each
        turn why this worker does not continue, "" where it does.
        """
        # No step precedes an episode's first attempt; those before another may be another worker's.
        last_turn = 0 if turn.turn == 1 and not is_retry else None
        while True:
            with telemetry.span("turn", {"podium.turn": turn.turn}):
                outcome = await self._take(episode, turn, is_retry, last_turn)
            last_turn = turn.turn
            if outcome is not None:
                return replace(outcome, turn=turn.turn)
            if not turn.run_to:
                return Released(turn.turn)
            if turn.turn == turn.run_to:
                return Finished(StopReason.TURN_LIMIT, turn=turn.turn)
            if reason := release_reason(turn.turn):
                return Released(turn.turn, reason)
            turn = TurnInput(
                turn.episode_id,
                turn.turn + 1,
                last=turn.turn + 1 == turn.run_to,
                run_to=turn.run_to,
                resumed=turn.resumed,
            )

    async def _take(
        self, episode: RunningEpisode, turn: TurnInput, is_retry: bool, last_turn: int | None
    ) -> Finished | Waiting | None:
        """Takes one turn; None where the next one follows."""
        log = await self.logs.open(episode.id, last_turn)
        if is_retry:
            # The calls that another process has sent since are not known here.
            log.unsent.clear()
        log.is_retry = is_retry
        episode = episode.with_found_tools(log, turn.turn)
        if not log.has(turn.turn, StepKind.MODEL):
            try:
                ending = await self.decider.decide(episode, log, turn.turn, turn.last)
            except FailedPrecondition as error:
                if error.reason != CONTEXT_TOO_LONG:
                    raise
                failure = FailureKind.CONTEXT_TOO_LONG.value
                return Finished(StopReason.FAILED, error.message, failure)
            if ending is not None:
                return ending
        if ending := ending_after_cut_off(log, turn.turn) or ending_after_cuts(log, turn.turn):
            return ending
        action = log.model_calls[turn.turn].response.action
        if action.WhichOneof("decision") == "final_answer":
            return ending_after_block(log, turn.turn) or Finished(StopReason.ANSWERED)
        calls = await self._authorized(episode, log, turn, action.tool_calls.calls)
        answered = await self.replays.answer(episode, log, turn.turn, calls)
        if isinstance(answered, Finished):
            return answered
        return await self._make_calls(episode, log, turn, answered)

    async def _authorized(
        self, episode: RunningEpisode, log: StepLog, turn: TurnInput, asked: Sequence[pb.ToolCall]
    ) -> list[EpisodeToolCall]:
        results = await self.clients.results(episode.id, turn.turn) if turn.answered else {}
        resolved = []
        for each in asked:
            tool, index = episode.tool(each.tool_name), str(each.index)
            logged = log.has(turn.turn, StepKind.TOOL, each.index)
            child = child_call(episode, turn.turn, each)
            resolved.append(
                EpisodeToolCall(
                    asked=each,
                    tool=tool,
                    model_alias=model_alias(each, tool) if tool else "",
                    done=logged or each.index in turn.children,
                    child=child if isinstance(child, ChildCall) else None,
                    failure=child
                    if isinstance(child, ToolFailure)
                    else model_problem(each, tool) or wrong_arguments(each, tool),
                    approval=approval_of(turn, each.index),
                    ended=turn.ended.get(index),
                    result=results.get(each.index),
                )
            )
        return await self.policies.authorize(episode, resolved)

    async def _make_calls(
        self, episode: RunningEpisode, log: StepLog, turn: TurnInput, calls: list[EpisodeToolCall]
    ) -> Finished | Waiting | None:
        waiting = [call for call in calls if call.waits]
        if waiting:
            await self._ask_for_approval(episode, log, turn.turn, waiting)
            await self._settle(episode, log)
            return Waiting(turn.turn, pending=tuple(call.index for call in waiting))
        todo = [call for call in calls if not log.has(turn.turn, StepKind.TOOL, call.index)]
        if starting := [call for call in todo if call.starts_child]:
            children = tuple(call.child for call in starting if call.child is not None)
            await self._settle(episode, log)
            return Waiting(turn.turn, children=children, others=len(starting) < len(todo))
        for_caller = [call.asked for call in todo if call.asks_caller]
        ready = [
            call
            for call in todo
            if not call.asks_caller
            and (call.index not in turn.children or str(call.index) in turn.ended)
        ]
        if ready:
            await self.invoker.invoke(episode, log, turn.turn, ready)
        if written := written_calls(episode, log, turn.turn, calls):
            authorized = [
                with_approval_denied(call)
                for call in await self.policies.authorize(episode, written)
            ]
            answered = await self.replays.answer(episode, log, turn.turn, authorized)
            if isinstance(answered, Finished):
                return answered
            await self.invoker.invoke(episode, log, turn.turn, answered)
        if for_caller:
            await self.clients.request(log, turn.turn, for_caller)
            await self._settle(episode, log)
            return Waiting(turn.turn, asks_caller=True)
        if answer_of(episode, log, turn.turn) is not None:
            return Finished(StopReason.ANSWERED)
        if not turn.run_to:
            await self._settle(episode, log)  # its children are still running
        return None

    async def _settle(self, episode: RunningEpisode, log: StepLog) -> None:
        """Captures costs and stores them before the turn waits, be it for minutes.

        Watchers see settled steps only, and a person or the caller must see the call; children
        spend from the same budget, which this episode's open holds would keep from them.
        """
        await self.invoker.charges.settle_and_reserve(episode, log, [])
        await self.settlements.flush()

    async def _ask_for_approval(
        self, episode: RunningEpisode, log: StepLog, turn: int, calls: list[EpisodeToolCall]
    ) -> None:
        expire_time = datetime.now(UTC) + timedelta(
            seconds=approval_timeout_s(episode.stored.new.toolset)
        )
        requests: list[tuple[int, StepKind, int, Body]] = [
            (
                turn,
                StepKind.APPROVAL,
                call.index,
                approval_request(call, expire_time),
            )
            for call in calls
            if not log.has(turn, StepKind.APPROVAL, call.index)
        ]
        events = [
            approval_requested(episode.stored.new, turn, index, body.call.tool_name, expire_time)
            for _, _, index, body in requests
            if isinstance(body, episode_pb2.ApprovalRequested)
        ]
        if requests:
            await self.logs.append(log, requests, events)


def approval_request(call: EpisodeToolCall, expire_time: datetime) -> episode_pb2.ApprovalRequested:
    request = episode_pb2.ApprovalRequested(
        call=call.asked, expire_time=timestamp_to_proto(expire_time)
    )
    if call.decision is not None:
        request.reason = call.decision.reason
    if call.tool is not None:
        request.side_effect = call.tool.side_effect
        if call.tool.HasField("price_per_call"):
            request.price.CopyFrom(call.tool.price_per_call)
    return request


def approval_of(turn: TurnInput, call_index: int) -> trajectory_pb2.ApprovalDecision | None:
    approved = turn.approvals.get(str(call_index))
    if approved is None:
        return None
    decided = turn.decided.get(str(call_index))
    return trajectory_pb2.ApprovalDecision(
        approved=approved,
        actor=decided.actor if decided else "",
        reason=decided.reason if decided else "",
    )
