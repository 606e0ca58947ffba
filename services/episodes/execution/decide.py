"""One model call: holds its worst case, asks the orchestrator, logs its decision.

The third reply that the engine cut at its token limit ends the episode: the model has been asked
twice to be briefer, and every turn is paid. So does the first one of an answer that was shown while
it was written.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from episodes.clients import Adapters, OrchestratorClient, OrchestratorModels
from episodes.errors import TRANSIENT
from episodes.execution.outcomes import Finished
from episodes.execution.token_limit import remaining_for_turn
from episodes.keys import StepKind, effect_key
from episodes.models import StopReason
from episodes.publication.trajectory import children_cost, total_cost
from episodes.spending.guardrail_holds import ANSWER_STAGES, guardrail_holds
from episodes.spending.holds import Charges, GrantedHold
from episodes.spending.worst_case import hold_request, token_worst_case, tokens_max
from episodes.step_log.answer_parts import AnswerAttempt, WrittenParts
from episodes.step_log.log import StepLog, StepLogs, observations
from episodes.step_log.running_episode import RunningEpisode
from podium.common.v1 import money_pb2
from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.ledger.v1 import hold_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1 import guardrail_pb2
from podium_kit.failures import FailureKind
from podium_kit.rpc.errors import DomainError
from podium_kit.wire import duration_to_proto, money_to_proto, optional_money_from_proto

MODEL_TIMEOUT_S = 600.0
DEFAULT_MAX_TOKENS = 512
# The distribution that a reply is sampled from is then the model's, which GRPO asks for.
EXPLORING_TEMPERATURE = 1.0
# Models that are asked by their chat template think before they call a tool.
THINKING_MAX_TOKENS = 4_096


@dataclass(frozen=True)
class Decider:
    orchestrator: OrchestratorClient
    models: OrchestratorModels
    charges: Charges
    logs: StepLogs
    adapters: Adapters
    answers: WrittenParts
    prompt_tokens_max: int

    async def decide(
        self, episode: RunningEpisode, log: StepLog, turn: int, must_answer: bool
    ) -> Finished | None:
        remaining = remaining_for_turn(episode, log, turn)
        if remaining is not None and remaining.used_up:
            return Finished(StopReason.OUTPUT_LIMIT)
        model = await self.models.find(episode.spec.model)
        request = next_action_request(episode, log, turn, model, must_answer=must_answer)
        if remaining is not None:
            request.must_answer = must_answer or remaining.must_answer
            request.sampling.max_tokens = min(request.sampling.max_tokens, remaining.tokens)
        held = self._held(model, request, turn)
        guardrails = guardrail_holds(held, episode.toolset.guardrails, ANSWER_STAGES)
        [reply] = await self.charges.settle_and_reserve(episode, log, [held], guardrails)
        if not isinstance(reply, GrantedHold):
            return _rejected(reply)
        # What the money covers is all the model may write.
        request.sampling.max_tokens = reply.output_tokens or request.sampling.max_tokens
        add_remaining_limits(request, episode, log)
        log.note_sent(request.key)
        shown = AnswerAttempt(self.answers, episode.id, turn) if _shows_answer(episode) else None
        try:
            response = await self._asked(request, shown)
        except TRANSIENT:
            raise
        except DomainError:
            # It rejects a call before it asks an engine.
            await self.charges.release_unsent(request.key, *reply.guardrail_keys)
            raise
        call = trajectory_pb2.ModelCall(
            key=request.key,
            response=response,
            granted_output_tokens=reply.output_tokens,
            guardrail_keys=reply.guardrail_keys,
            answer_shown=shown is not None and shown.has_begun,
        )
        await self._read_answer(episode, call)
        await self.logs.append(log, [(turn, StepKind.MODEL, 0, call)])
        return None

    async def _asked(
        self, request: pb.NextActionRequest, shown: AnswerAttempt | None
    ) -> pb.NextActionResponse:
        if shown is None:
            return await self.orchestrator.next_action(request, MODEL_TIMEOUT_S)
        return await self.orchestrator.next_action_showing(request, MODEL_TIMEOUT_S, shown.show)

    async def _read_answer(self, episode: RunningEpisode, call: trajectory_pb2.ModelCall) -> None:
        """Has the policy's guardrails read a final answer, before it is recorded."""
        response, guardrails = call.response, episode.toolset.guardrails
        if not guardrails or response.action.WhichOneof("decision") != "final_answer":
            return
        answer = response.action.final_answer
        read = await self.adapters.check_answer(episode.id, call.key, guardrails, answer)
        call.guardrails.extend(read.decisions)
        if read.answer == answer:
            return
        response.action.final_answer = read.answer
        # They repeat the answer.
        response.action.thought = response.completion_text = ""
        del response.completion_token_ids[:]
        del response.completion_logprobs[:]

    def _held(
        self, model: pb.Model, request: pb.NextActionRequest, turn: int
    ) -> ledger_pb.ReserveRequest:
        # The size of the request bounds the size of the prompt that is built from it. What is
        # left of time and money is not in it yet: a retry must hold what the first attempt held.
        input_tokens = min(tokens_max(request.ByteSize()), self.prompt_tokens_max)
        worst_case = token_worst_case(input_tokens, request.sampling.max_tokens)
        return hold_request(request.key, model.name, model.name, model.sku, worst_case, turn=turn)


def _shows_answer(episode: RunningEpisode) -> bool:
    """Returns whether a text of the answer is final once it is written, for someone who asked."""
    return episode.spec.stream_answer and not episode.toolset.guardrails


def _rejected(rejection: hold_pb2.Rejection) -> Finished:
    out_of_budget = rejection.reason == hold_pb2.REJECTION_REASON_BUDGET_EXHAUSTED
    stop = StopReason.BUDGET_EXHAUSTED if out_of_budget else StopReason.FAILED
    return Finished(stop, rejection.message, budget_id=rejection.budget_id)


def next_action_request(
    episode: RunningEpisode, log: StepLog, turn: int, model: pb.Model, *, must_answer: bool
) -> pb.NextActionRequest:
    """Builds the model's request, without the remaining time and money."""
    request = pb.NextActionRequest(
        key=effect_key(episode.id, turn, StepKind.MODEL),
        model=episode.spec.model,
        prompt_mode=episode.spec.prompt_mode or model.prompt_mode,
        task=episode.spec.task,
        instruction=episode.toolset.instruction,
        tools=episode.tool_definitions(),
        turns=[past_turn(log, number) for number in range(1, turn)],
        sampling=episode.spec.sampling,
        history=episode.spec.history,
        must_answer=must_answer,
        must_call=_must_call(episode.spec, log, turn),
        answer_json_schema=episode.spec.answer_json_schema,
        preferences=episode.toolset.preferences,
        parallel_calls=_parallel_calls(episode),
    )
    request.sampling.max_tokens = request.sampling.max_tokens or _max_tokens(request, model)
    if not request.sampling.HasField("temperature") and explores(
        episode.id, episode.toolset.explore
    ):
        request.sampling.temperature = EXPLORING_TEMPERATURE
    return request


def explores(episode_id: str, share: float) -> bool:
    """Returns whether an episode is one of the share that is sampled for training."""
    digest = hashlib.sha256(episode_id.encode()).digest()
    return int.from_bytes(digest[:8]) < share * 2**64


def _max_tokens(request: pb.NextActionRequest, model: pb.Model) -> int:
    """Returns the limit of a completion that the episode leaves open; a prompt needs room, too."""
    if request.prompt_mode != pb.PROMPT_MODE_TEMPLATE:
        return DEFAULT_MAX_TOKENS
    return min(THINKING_MAX_TOKENS, model.context_tokens // 2 or THINKING_MAX_TOKENS)


def _parallel_calls(episode: RunningEpisode) -> int:
    """Returns the lower of the policy's and the request's limit; 0 where neither sets one."""
    limits = (episode.toolset.parallel_calls, episode.spec.parallel_calls)
    return min(filter(None, limits), default=0)


def _must_call(spec: episode_pb2.EpisodeSpec, log: StepLog, turn: int) -> Sequence[str]:
    """Returns the tools to call first, until one of them was called."""
    called = {
        invocation.observation.call.tool_name
        for number, calls in log.tool_calls.items()
        if number < turn
        for invocation in calls.values()
    }
    return [] if called & set(spec.first_tool_names) else spec.first_tool_names


def add_remaining_limits(
    request: pb.NextActionRequest, episode: RunningEpisode, log: StepLog
) -> None:
    request.time_left.CopyFrom(duration_to_proto(_remaining_s(episode)))
    if (money := _remaining_money(episode, log)) is not None:
        request.money_left.CopyFrom(money)


def _remaining_money(episode: RunningEpisode, log: StepLog) -> money_pb2.Money | None:
    """Returns the rest of the episode's own budget, which its children spend as well.

    Calls of unknown cost are not in it.
    """
    budget = optional_money_from_proto(episode.spec.budget)
    if budget is None:
        return None
    spent = total_cost([*(step.cost for step in log.steps), children_cost(log)])
    left = (
        budget if spent is None or spent.currency_code != budget.currency_code else budget - spent
    )
    return money_to_proto(left)


def _remaining_s(episode: RunningEpisode) -> float:
    ran = datetime.now(UTC) - episode.stored.create_time
    return max(0.0, episode.stored.new.time_limit_s - ran.total_seconds())


def past_turn(log: StepLog, turn: int) -> pb.PastTurn:
    response = log.model_calls[turn].response
    return pb.PastTurn(
        completion_text=response.completion_text,
        action=response.action,
        observations=observations(log, turn),
    )


def ending_after_block(log: StepLog, turn: int) -> Finished | None:
    """Returns the end of an episode whose answer a guardrail blocked."""
    for decision in log.model_calls[turn].guardrails:
        if decision.verdict == guardrail_pb2.GUARDRAIL_VERDICT_BLOCKED:
            message = f"the guardrail {decision.guardrail} blocked the answer: {decision.reason}"
            return Finished(StopReason.FAILED, message, failure=FailureKind.BLOCKED.value)
    return None


CUT_REPLIES_MAX = 3
# As orchestrator-inference passes on what engines say.
FINISH_LENGTH = "length"


def ending_after_cuts(log: StepLog, turn: int) -> Finished | None:
    if not _was_cut(log.model_calls[turn]):
        return None
    if log.model_calls[turn].answer_shown:
        # What was shown cannot be taken back for a shorter answer.
        return Finished(StopReason.OUTPUT_LIMIT)
    cut = [number for number, call in sorted(log.model_calls.items()) if _was_cut(call)]
    if len(cut) < CUT_REPLIES_MAX:
        return None
    call = log.model_calls[turn]
    written = f"{len(cut)} replies of the orchestrator were cut at their token limit"
    if call.granted_output_tokens:
        return Finished(
            StopReason.BUDGET_EXHAUSTED,
            f"{written}: the budget covered {call.granted_output_tokens} tokens of the last"
            " one; raise the budget, or choose a cheaper orchestrator",
        )
    return Finished(
        StopReason.FAILED,
        f"{written} ({call.response.sampling.max_tokens} tokens) before they were complete;"
        " raise max_tokens (sampling.max_tokens of an episode), or ask for a shorter answer",
        failure=FailureKind.LIMIT_EXCEEDED.value,
    )


def _was_cut(call: trajectory_pb2.ModelCall) -> bool:
    """A reply that was cut after a whole action counts as complete."""
    response = call.response
    return response.finish_reason == FINISH_LENGTH and response.action.HasField("malformed")
