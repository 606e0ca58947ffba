"""The workflow of an episode that waits or is long.

A worker took the turns before it, by a lease; it starts from the step log that they left.

One activity takes a run of turns, until a person, a child, the caller or the end needs the
workflow. Every model call and tool call in it is a durable step of its own, so a repeated attempt
reads back the steps that are done.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from temporalio import workflow
from temporalio.common import SearchAttributePair, TypedSearchAttributes, WorkflowIDReusePolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    WorkflowAlreadyStartedError,
    is_cancelled_exception,
)

from episodes.execution.outcomes import Approval, ChildCall, EpisodeResult, TurnInput
from episodes.keys import workflow_id
from episodes.shielding import shielded
from episodes.workflows.payloads import (
    OUT_OF_TIME,
    EpisodeInput,
    FinishInput,
    JudgeInput,
    TurnResult,
)
from episodes.workflows.retry_policies import (
    FINISH_RETRY,
    FINISH_TIMEOUT,
    HEARTBEAT_TIMEOUT,
    JUDGE_RETRY,
    JUDGE_TIMEOUT,
    JUDGE_TOTAL_TIMEOUT,
    TASK_TIMEOUT,
    TURN_MARGIN,
    TURN_RETRY,
)
from episodes.workflows.search_attributes import EPISODE

TAKE_TURN = "take_turn"
JUDGE_ANSWER = "judge_answer"
FINISH_EPISODE = "finish_episode"
ADMIT_CHILD = "admit_child"


@workflow.defn(name="Episode")
class EpisodeWorkflow:
    """Waits for people, children and the caller between runs of turns.

    Its state is small: the turns whose calls may be decided, the decisions, and the turns whose
    calls the caller has answered.
    """

    @workflow.init
    def __init__(self, episode: EpisodeInput) -> None:
        # What the queue hands over may be decided before anything has run here.
        self._deciding = range(1, episode.turn_limit + 1)
        self._decided: dict[int, dict[str, Approval]] = {}
        self._answered: set[int] = set()
        self._ending = False
        self._deadline = datetime.max.replace(tzinfo=UTC)

    @workflow.run
    async def run(self, episode: EpisodeInput) -> EpisodeResult:
        if episode.ending is not None:
            ending = episode.ending
        elif episode.call is None:
            ending = await self._until_end(episode)
        else:
            ending = await self._as_child(episode.call)
        judged = episode.checked and ending.stop == "answered" and not ending.finished
        unjudged_reason = await self._judge(episode) if judged else ""
        if not ending.finished:
            await self._finish(FinishInput.of(episode.episode_id, ending, unjudged_reason))
        await workflow.wait_condition(workflow.all_handlers_finished)
        return EpisodeResult(ending.stop, ending.message)

    @workflow.update
    async def decide(self, approval: Approval) -> None:
        """Stores a person's decision on a call.

        A person is asked before the turn's activity returns, so the decision may come first.
        """
        self._decided.setdefault(approval.turn, {})[str(approval.call_index)] = approval

    @workflow.signal
    async def caller_answered(self, turn: int) -> None:
        """Notes that the caller's results of a turn are stored, perhaps before the turn waits for
        them."""
        self._answered.add(turn)

    @decide.validator
    def _reject_closed_call(self, approval: Approval) -> None:
        before = self._decided.get(approval.turn, {}).get(str(approval.call_index))
        if before == approval:
            return  # a retry
        if before is not None or approval.turn not in self._deciding:
            raise ApplicationError("no such call waits for approval", type="NothingToApprove")

    async def _as_child(self, call: ChildCall) -> TurnResult:
        """Becomes an episode before it takes turns; a cancel waits for that, to end it whole."""
        admission = workflow.execute_activity(
            ADMIT_CHILD,
            call,
            result_type=EpisodeInput,
            # As long as its caller may run: a registry that is away delays it.
            schedule_to_close_timeout=timedelta(seconds=call.admission_s),
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=FINISH_RETRY,
        )
        try:
            episode, cancelled = await shielded(admission)
        except ActivityError as error:
            return TurnResult(stop="failed", message=_cause(error))
        return TurnResult(stop="cancelled") if cancelled else await self._until_end(episode)

    async def _until_end(self, episode: EpisodeInput) -> TurnResult:
        """Runs the turns until their end, the episode's one timer or its cancellation.

        The executor decides on the end of a running activity; this is the end where none runs.
        """
        self._deadline = workflow.now() + timedelta(seconds=episode.time_limit_s)
        turns = asyncio.create_task(self._take_turns(episode))
        timer = asyncio.create_task(asyncio.sleep(episode.time_limit_s))
        try:
            await workflow.wait([turns, timer], return_when=asyncio.FIRST_COMPLETED)
            if turns.done():
                return turns.result()
            ending = OUT_OF_TIME
        except asyncio.CancelledError:
            ending = TurnResult(stop="cancelled")
        except ActivityError as error:
            return TurnResult(stop="failed", message=_cause(error))
        finally:
            timer.cancel()
        # A turn that completes before the cancel reaches it returns as if nothing had happened.
        self._ending = True
        turns.cancel()
        with suppress(asyncio.CancelledError, ActivityError):
            if (last := await turns).finished:
                return last
        return ending

    async def _judge(self, episode: EpisodeInput) -> str:
        try:
            await workflow.execute_activity(
                JUDGE_ANSWER,
                JudgeInput(episode.episode_id),
                start_to_close_timeout=JUDGE_TIMEOUT,
                schedule_to_close_timeout=JUDGE_TOTAL_TIMEOUT,
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=JUDGE_RETRY,
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            )
        except asyncio.CancelledError:
            return "cancelled while the answer was judged"
        except ActivityError as error:
            return _cause(error)
        return ""

    async def _finish(self, finish: FinishInput) -> None:
        """Settles and publishes; a late cancel must not leave it half done."""
        await shielded(
            workflow.execute_activity(
                FINISH_EPISODE,
                finish,
                start_to_close_timeout=FINISH_TIMEOUT,
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=FINISH_RETRY,
            )
        )

    async def _take_turns(self, episode: EpisodeInput) -> TurnResult:
        asked = turn_input(episode, 1)
        while True:
            # In a run any turn may be the one that asks; what the first one asked is decided.
            decided = asked.approvals or asked.ended or asked.answered
            self._deciding = range(asked.turn + bool(decided), max(asked.turn, asked.run_to) + 1)
            result = await self._run_turn(episode, asked)
            if result.stop or self._ending:
                return result
            asked = await self._following(episode, asked, result)

    async def _following(
        self, episode: EpisodeInput, asked: TurnInput, result: TurnResult
    ) -> TurnInput:
        if result.turn > asked.turn:
            asked = turn_input(episode, result.turn)
        self._deciding = range(asked.turn, asked.turn + bool(result.pending))
        if result.pending:
            return await self._decided_turn(episode, asked, result.pending)
        if result.children:
            return await self._join(episode, asked, result)
        if result.asks_caller:
            turn = asked.turn
            await workflow.wait_condition(lambda: turn in self._answered)
            return replace(asked, answered=True)
        return turn_input(episode, asked.turn + 1)

    async def _decided_turn(
        self, episode: EpisodeInput, asked: TurnInput, pending: list[int]
    ) -> TurnInput:
        decided = await self._decisions(episode, asked.turn, pending)
        # A call that is not decided in time is denied. What was decided before stays decided: the
        # policy may have come to ask about another call of the turn since.
        approvals = {
            str(index): str(index) in decided and decided[str(index)].approved for index in pending
        }
        return replace(asked, approvals=asked.approvals | approvals, decided=decided)

    async def _join(self, episode: EpisodeInput, asked: TurnInput, result: TurnResult) -> TurnInput:
        """Returns the turn with the ends of its children, which run beside its other calls.

        No activity waits for a child, so parents never hold the slots their children need.
        """
        asked = replace(asked, children=[call.call_index for call in result.children])
        children = asyncio.gather(*(self._run_child(call) for call in result.children))
        try:
            if result.others:
                # One of them may give the answer: the episode ends once its children have.
                await self._run_turn(episode, replace(asked, run_to=0, finishes=False))
            ended = await children
        finally:
            # When the turn is cut off, its children end before it does.
            children.cancel()
            with suppress(asyncio.CancelledError):
                await children
        by_index = {
            str(call.call_index): one for call, one in zip(result.children, ended, strict=True)
        }
        return replace(asked, ended=by_index)

    async def _run_child(self, call: ChildCall) -> EpisodeResult:
        remaining_s = max((self._deadline - workflow.now()).total_seconds(), 0.001)
        call = replace(
            call, time_limit_s=min(call.time_limit_s, remaining_s), admission_s=remaining_s
        )
        try:
            return await workflow.execute_child_workflow(
                EpisodeWorkflow.run,
                EpisodeInput(call.episode_id, 0, call.time_limit_s, call=call),
                id=workflow_id(call.episode_id),
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
                task_timeout=TASK_TIMEOUT,
                search_attributes=_of_child(call),
            )
        except (ChildWorkflowError, WorkflowAlreadyStartedError) as error:
            return EpisodeResult("failed", str(error.cause or error))

    async def _run_turn(self, episode: EpisodeInput, turn: TurnInput) -> TurnResult:
        result: TurnResult = await workflow.execute_activity(
            TAKE_TURN,
            replace(turn, deadline=self._deadline.timestamp()),
            result_type=TurnResult,
            # The episode's own timer ends a turn in order; this only bounds a lost one.
            start_to_close_timeout=timedelta(seconds=episode.time_limit_s) + TURN_MARGIN,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=TURN_RETRY,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        return result

    async def _decisions(
        self, episode: EpisodeInput, turn: int, pending: list[int]
    ) -> dict[str, Approval]:
        decided = self._decided.setdefault(turn, {})
        with suppress(asyncio.TimeoutError):
            await workflow.wait_condition(
                lambda: all(str(index) in decided for index in pending),
                timeout=timedelta(seconds=episode.approval_timeout_s),
            )
        return dict(decided)


def turn_input(episode: EpisodeInput, turn: int) -> TurnInput:
    return TurnInput(
        episode.episode_id,
        turn,
        last=turn == episode.turn_limit,
        run_to=episode.turn_limit,
        finishes=True,
        resumed=episode.resumed,
    )


def _of_child(call: ChildCall) -> TypedSearchAttributes:
    """Returns its parent's attributes, where the namespace knows them, with the child's episode."""
    attributes = workflow.info().typed_search_attributes
    if attributes.get(EPISODE) is None:
        return attributes
    return attributes.updated(SearchAttributePair(EPISODE, call.episode_id))


def _cause(error: ActivityError) -> str:
    if is_cancelled_exception(error):
        return "the turn was cancelled by the worker"
    return str(error.cause or error)
