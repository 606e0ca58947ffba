"""Ends an episode: settle the ledger, store the trajectory, owe it to the stream.

Every step is keyed or idempotent, so the activity may be repeated until all of
them stand: an episode is settled if and only if its trajectory is owed.
"""

from dataclasses import dataclass

from temporalio import activity

from episodes.charges.service import Charges
from episodes.checks import unjudged, without_answer
from episodes.children.cut_off import CutOffChildren
from episodes.clients import Adapters
from episodes.errors import EpisodeNotFound
from episodes.keys import budget_id, verifier_session
from episodes.models import Ending, Progress, StopReason
from episodes.running_episode import RunningEpisode, RunningEpisodes
from episodes.steps.log import StepLog, StepLogs
from episodes.steps.settlements import Settlements
from episodes.stream.records import closing_record, trajectory_record
from episodes.stream.store_outbox import OutboxStore
from episodes.stream.trajectory import build_trajectory, summarize
from episodes.temporal.heartbeats import heartbeats
from episodes.turns.answers import answer_of
from episodes.turns.cut_off_calls import CutOffCalls
from episodes.turns.root_span import ended_episode
from episodes.workflows.episode import FINISH_EPISODE
from episodes.workflows.payloads import EpisodeResult, FinishInput
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import check_pb2
from podium.registry.v1 import tool_pb2
from podium_kit import telemetry
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.rpc.identity import acting_as
from podium_kit.wire import failure_to_proto

# An episode that ended by itself has settled the holds of all that it logged.
SETTLED_ENDINGS = (StopReason.ANSWERED, StopReason.TURN_LIMIT, StopReason.OUTPUT_LIMIT)
STATEFUL_KINDS = (tool_pb2.TOOL_KIND_MCP, tool_pb2.TOOL_KIND_CODE)
FAILURE_KINDS = {
    StopReason.BUDGET_EXHAUSTED: FailureKind.BUDGET_EXHAUSTED,
    StopReason.DEADLINE: FailureKind.TIMEOUT,
    StopReason.FAILED: FailureKind.UNAVAILABLE,
}


@dataclass(frozen=True)
class FinishActivity:
    """Ends episodes."""

    episodes: RunningEpisodes
    logs: StepLogs
    charges: Charges
    adapters: Adapters
    outbox: OutboxStore
    settlements: Settlements
    cut_off: CutOffChildren
    cut_off_calls: CutOffCalls

    @activity.defn(name=FINISH_EPISODE)
    async def finish_episode(self, finish: FinishInput) -> None:
        """Ends one episode; repeating it changes nothing."""
        async with heartbeats():
            await self.finish(finish)

    async def finish(self, finish: FinishInput, last_turn: int | None = None) -> None:
        """As the activity, within another one's heartbeats; who took the last turn names it."""
        try:
            episode = await self.episodes.get(finish.episode_id)
        except EpisodeNotFound:
            return  # a child that was rejected before it was an episode
        with (
            acting_as(episode.identity),
            telemetry.episode_context(episode.id),
            telemetry.span("finish", {"podium.stop_reason": finish.stop_reason}),
        ):
            await self._finish(episode, finish, await self.logs.open(episode.id, last_turn))
        self.episodes.forget(episode.id)
        self.logs.forget(episode.id)

    async def _finish(self, episode: RunningEpisode, finish: FinishInput, log: StepLog) -> None:
        episode = episode.with_found_tools(log)
        await self.cut_off.log(episode, log, EpisodeResult(finish.stop_reason, finish.message))
        await self.charges.settle_and_reserve(episode, log, [])
        if _may_hold_money(finish, log):
            await self.cut_off_calls.settle(episode, log, StopReason(finish.stop_reason))
        await self._close_tools(episode, log)
        ending = _ending(episode, finish, log)
        progress = await self._end(episode, log, ending, _judgement(episode, log, finish))
        telemetry.record_episode(ended_episode(episode, ending, progress))

    async def _close_tools(self, episode: RunningEpisode, log: StepLog) -> None:
        if _holds_state(episode, log) or log.verifier_calls:
            await self.adapters.close_episode(episode.id)
        if log.verifier_calls:
            await self.adapters.close_episode(verifier_session(episode.id))

    async def _end(
        self,
        episode: RunningEpisode,
        log: StepLog,
        ending: Ending,
        judgement: check_pb2.Judgement | None,
    ) -> Progress:
        progress = summarize(log)
        trajectory = build_trajectory(episode, log, ending, progress, judgement)
        record = trajectory_record(trajectory)
        place = episode.stored.new.membership
        records = [record]
        if place.size == 1:
            records.append(closing_record(record, [(episode.id, record.digest)]))
        async with self.settlements.taken(episode.id) as costs:
            # Watchers that see the end see the costs.
            members = await self.outbox.finish(
                episode.id, place, ending, progress, records, costs=costs
            )
        if len(members) == place.size:
            pairs = [(member.episode_id, member.digest) for member in members]
            await self.outbox.owe(closing_record(record, pairs))
        return progress


def _may_hold_money(finish: FinishInput, log: StepLog) -> bool:
    """Whether a hold may be open for a call that is not in the log, or is there as never made."""
    # An attempt may have held money before the policy changed and a later one was denied.
    denied = any(
        call.observation.failure.kind == failure_pb2.FAILURE_KIND_DENIED_BY_POLICY
        for turn in log.tool_calls.values()
        for call in turn.values()
    )
    cut_off = finish.stop_reason not in SETTLED_ENDINGS or bool(finish.unjudged_reason)
    return cut_off or denied


def _holds_state(episode: RunningEpisode, log: StepLog) -> bool:
    """Whether a tool that keeps state for the episode was called."""
    called = {
        call.observation.call.tool_name
        for turn in log.tool_calls.values()
        for call in turn.values()
    }
    return any(
        tool.name in called and tool.kind in STATEFUL_KINDS for tool in episode.toolset.tools
    )


def _judgement(
    episode: RunningEpisode, log: StepLog, finish: FinishInput
) -> check_pb2.Judgement | None:
    """What the check says; None where none was requested."""
    check = episode.spec.check
    if not episode.spec.HasField("check") or log.judgement is not None:
        return log.judgement
    reason = StopReason(finish.stop_reason)
    if reason is StopReason.ANSWERED:
        return unjudged(check, finish.unjudged_reason)
    if reason is StopReason.BUDGET_EXHAUSTED and not _is_own(episode, finish.budget_id):
        # What others had spent says nothing about this episode.
        return unjudged(check, f"a budget that is not the episode's own ended it: {finish.message}")
    return without_answer(check, reason)


def _is_own(episode: RunningEpisode, rejecting_id: str) -> bool:
    """Whether the budget is the episode's, or the one that it shares with those above it.

    Replies that were cut name none: where the episode has a budget, that one is taken for it.
    """
    spec = episode.spec
    own = {budget_id(episode.id)} if spec.HasField("budget") else set()
    own |= {spec.parent.budget_id} - {""}
    return bool(own) and (not rejecting_id or rejecting_id in own)


def _ending(episode: RunningEpisode, finish: FinishInput, log: StepLog) -> Ending:
    reason = StopReason(finish.stop_reason)
    answered = reason is StopReason.ANSWERED and log.model_calls
    answer = answer_of(episode, log, max(log.model_calls)) if answered else None
    failure = b""
    kind = FailureKind(finish.failure) if finish.failure else FAILURE_KINDS.get(reason)
    if kind:
        failure = failure_to_proto(ToolFailure(kind, finish.message)).SerializeToString()
    return Ending(reason, answer or "", failure)
