"""Ends an episode: settles the ledger, stores the trajectory, adds it to the outbox.

Every step is keyed or idempotent, so it may be repeated until all of them are done: an episode is
settled if and only if its trajectory is in the outbox. A call that the end cut off may have been
made and billed, so it becomes a step of unknown cost.
"""

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal

from episodes.clients import Adapters
from episodes.errors import EpisodeNotFound
from episodes.execution.children import CutOffChildren
from episodes.execution.outcomes import EpisodeResult, Finished
from episodes.execution.promoted_models import observe_end
from episodes.execution.verify import answer_of, tools_of_check, unjudged, without_answer
from episodes.keys import StepKind, budget_id, effect_place, verifier_session
from episodes.models import Ending, Progress, StopReason
from episodes.publication.records import closing_record, trajectory_record
from episodes.publication.store_outbox import OutboxStore
from episodes.publication.trajectory import build_trajectory, facts_of, summarize, trial_outcome
from episodes.spending.holds import Charges
from episodes.step_log.log import Body, StepLog, StepLogs, unknown
from episodes.step_log.running_episode import RunningEpisode, RunningEpisodes
from episodes.step_log.settlements import Settlements
from podium.common.v1 import failure_pb2, usage_pb2
from podium.episodes.v1 import check_pb2, episode_pb2, trajectory_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium_kit import telemetry
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.metering import COMPLETION_TOKENS, PROMPT_TOKENS
from podium_kit.rpc.identity import acting_as
from podium_kit.telemetry import EndedEpisode
from podium_kit.tool_kinds import kind_of
from podium_kit.wire import failure_from_proto, failure_to_proto
from podium_kit.wire.values import dimension_to_proto

REASON = "the call was cut off by the episode's end; whether it was made is not known"
KINDS = {StopReason.CANCELLED: FailureKind.CANCELLED, StopReason.DEADLINE: FailureKind.TIMEOUT}


@dataclass(frozen=True)
class CutOffCalls:
    logs: StepLogs
    charges: Charges

    async def settle(self, episode: RunningEpisode, log: StepLog, stop: StopReason) -> None:
        """Releases the holds of calls that had not begun, and logs and charges the others.

        They are logged first, so a repetition finds them, or their holds.
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


def ending_after_cut_off(log: StepLog, turn: int) -> Finished | None:
    if not log.model_calls[turn].HasField("failure"):
        return None
    kind = failure_from_proto(log.model_calls[turn].failure).kind
    stop = next((stop for stop in KINDS if KINDS[stop] is kind), StopReason.FAILED)
    return Finished(stop, REASON)


def _body(episode: RunningEpisode, log: StepLog, key: str, failure: failure_pb2.Failure) -> Body:
    turn, kind, index = effect_place(key)
    if kind is StepKind.MODEL:
        return trajectory_pb2.ModelCall(key=key, failure=failure)
    if kind is StepKind.VERIFIER:
        names = tools_of_check(episode.spec)
        call = pb.ToolCall(index=index, tool_name=names[index] if index < len(names) else "")
        tool = episode.tool(call.tool_name)
    else:
        asked = log.model_calls[turn].response.action.tool_calls.calls
        call = next(each for each in asked if each.index == index)
        tool = episode.tool(call.tool_name)
        if kind is StepKind.EXECUTOR and tool is not None:
            tool = tool.executor
            call = pb.ToolCall(index=index, tool_name=tool.name)
    return trajectory_pb2.ToolInvocation(
        key=key,
        observation=pb.Observation(call=call, failure=failure),
        tool_version=tool.version if tool else 0,
        usage=unknown(failure),
    )


# Of agents that no one named: the platform's default orchestrator.
DEFAULT_AGENT = "podium"
READ = frozenset(map(dimension_to_proto, PROMPT_TOKENS))
WRITTEN = frozenset(map(dimension_to_proto, COMPLETION_TOKENS))


def ended_episode(episode: RunningEpisode, ending: Ending, progress: Progress) -> EndedEpisode:
    used = list(episode_pb2.Episode.FromString(progress.usage).usage)
    return EndedEpisode(
        id=episode.id,
        started_at=episode.stored.create_time,
        agent=episode.spec.model or DEFAULT_AGENT,
        user=episode.stored.new.subject,
        stop_reason=ending.stop_reason.value,
        task=episode.spec.task,
        answer=ending.answer,
        input_tokens=_sum(used, READ),
        output_tokens=_sum(used, WRITTEN),
        cost=progress.cost.amount_string() if progress.cost else "",
        currency=progress.cost.currency_code if progress.cost else "",
    )


def _sum(used: Collection[usage_pb2.Quantity], dimensions: Collection[int]) -> int:
    return int(sum((Decimal(q.amount) for q in used if q.dimension in dimensions), Decimal(0)))


# An episode that ended by itself has settled the holds of all that it logged.
SETTLED_ENDINGS = (StopReason.ANSWERED, StopReason.TURN_LIMIT, StopReason.OUTPUT_LIMIT)
FAILURE_KINDS = {
    StopReason.BUDGET_EXHAUSTED: FailureKind.BUDGET_EXHAUSTED,
    StopReason.DEADLINE: FailureKind.TIMEOUT,
    StopReason.FAILED: FailureKind.UNAVAILABLE,
    StopReason.DIVERGED: FailureKind.NOT_FOUND,
}


@dataclass(frozen=True)
class EpisodeFinisher:
    episodes: RunningEpisodes
    logs: StepLogs
    charges: Charges
    adapters: Adapters
    outbox: OutboxStore
    settlements: Settlements
    cut_off: CutOffChildren
    cut_off_calls: CutOffCalls

    async def finish(
        self,
        episode_id: str,
        end: Finished,
        *,
        unjudged_reason: str = "",
        last_turn: int | None = None,
    ) -> None:
        """Ends one episode; repeating it changes nothing.

        A caller that took the last turn passes `last_turn`, and the log is not read again.
        """
        try:
            episode = await self.episodes.get(episode_id)
        except EpisodeNotFound:
            return  # a child that was rejected before it was an episode
        with (
            acting_as(episode.identity),
            telemetry.episode_context(episode.id),
            telemetry.span("finish", {"podium.stop_reason": end.stop_reason.value}),
        ):
            log = await self.logs.open(episode.id, last_turn)
            await self._finish(episode, end, unjudged_reason, log)
        self.episodes.forget(episode.id)
        self.logs.forget(episode.id)

    async def _finish(
        self, episode: RunningEpisode, end: Finished, unjudged_reason: str, log: StepLog
    ) -> None:
        episode = episode.with_found_tools(log)
        await self.cut_off.log(episode, log, EpisodeResult(end.stop_reason, end.message))
        await self.charges.settle_and_reserve(episode, log, [])
        if unjudged_reason or _may_hold_money(end, log):
            await self.cut_off_calls.settle(episode, log, end.stop_reason)
        await self._close_tools(episode, log)
        ending = _ending(episode, end, log)
        judgement = _judgement(episode, log, end, unjudged_reason)
        progress = await self._end(episode, log, ending, judgement)
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
        outcome = trial_outcome(trajectory, episode.spec.check)
        async with self.settlements.taken(episode.id) as costs:
            # Watchers that see the end see the costs.
            members = await self.outbox.finish(
                episode.id,
                place,
                ending,
                progress,
                records,
                costs=costs,
                outcome=outcome,
                facts=facts_of(episode, log, ending, trajectory),
            )
        observe_end(episode.stored.new, episode.toolset, outcome)
        if len(members) == place.size:
            pairs = [(member.episode_id, member.digest) for member in members]
            await self.outbox.add(closing_record(record, pairs))
        return progress


def _may_hold_money(end: Finished, log: StepLog) -> bool:
    """Returns whether a hold may be open for a call that the log lacks or shows as never made."""
    # An attempt may have held money before the policy changed and a later one was denied.
    denied = any(
        call.observation.failure.kind == failure_pb2.FAILURE_KIND_DENIED_BY_POLICY
        for turn in (*log.tool_calls.values(), *log.executor_calls.values())
        for call in turn.values()
    )
    return denied or end.stop_reason not in SETTLED_ENDINGS


def _holds_state(episode: RunningEpisode, log: StepLog) -> bool:
    called = {
        call.observation.call.tool_name
        for turn in (*log.tool_calls.values(), *log.executor_calls.values())
        for call in turn.values()
    }
    tools = (*episode.toolset.tools, *(tool.executor for tool in episode.toolset.tools))
    return any(tool.name in called and kind_of(tool.kind).stateful for tool in tools)


def _judgement(
    episode: RunningEpisode, log: StepLog, end: Finished, unjudged_reason: str
) -> check_pb2.Judgement | None:
    check = episode.spec.check
    if not episode.spec.HasField("check") or log.judgement is not None:
        return log.judgement
    if end.stop_reason is StopReason.ANSWERED:
        return unjudged(check, unjudged_reason)
    if end.stop_reason is StopReason.BUDGET_EXHAUSTED and not _is_own(episode, end.budget_id):
        # What others had spent says nothing about this episode.
        return unjudged(check, f"a budget that is not the episode's own ended it: {end.message}")
    if end.stop_reason is StopReason.DIVERGED:
        return unjudged(check, end.message)
    return without_answer(check, end.stop_reason)


def _is_own(episode: RunningEpisode, rejecting_id: str) -> bool:
    """Returns whether the budget is the episode's, or shared with those above it.

    Replies that were cut name no budget: the episode's own is assumed.
    """
    spec = episode.spec
    own = {budget_id(episode.id)} if spec.HasField("budget") else set()
    own |= {spec.parent.budget_id} - {""}
    return bool(own) and (not rejecting_id or rejecting_id in own)


def _ending(episode: RunningEpisode, end: Finished, log: StepLog) -> Ending:
    reason = end.stop_reason
    answered = reason is StopReason.ANSWERED and log.model_calls
    answer = answer_of(episode, log, max(log.model_calls)) if answered else None
    failure = b""
    kind = FailureKind(end.failure) if end.failure else FAILURE_KINDS.get(reason)
    if kind:
        failure = failure_to_proto(ToolFailure(kind, end.message)).SerializeToString()
    return Ending(reason, answer or "", failure)
