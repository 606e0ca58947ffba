"""One model call: hold its worst case, ask the orchestrator, log what it decided."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from episodes.charges.purchases import Purchase, most_tokens, token_worst_case
from episodes.charges.service import Charges, Grant
from episodes.clients import OrchestratorClient
from episodes.keys import StepKind, effect_key
from episodes.model_catalogue import OrchestratorModels
from episodes.models import StopReason
from episodes.running_episode import RunningEpisode
from episodes.steps.log import StepLog, StepLogs
from episodes.stream.trajectory import children_cost, total_cost
from episodes.temporal.activity_errors import TRANSIENT
from episodes.turns.token_limit import left_for_turn
from episodes.workflows.payloads import TurnResult
from podium.common.v1 import money_pb2
from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium.ledger.v1 import hold_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium_kit.rpc.errors import DomainError
from podium_kit.wire import duration_to_proto, money_to_proto, optional_money_from_proto

MODEL_TIMEOUT_S = 600.0
DEFAULT_MAX_TOKENS = 512


@dataclass(frozen=True)
class Decider:
    """Makes an episode's model calls."""

    orchestrator: OrchestratorClient
    models: OrchestratorModels
    charges: Charges
    logs: StepLogs
    prompt_tokens_max: int

    async def decide(
        self, episode: RunningEpisode, log: StepLog, turn: int, must_answer: bool
    ) -> TurnResult | None:
        """Logs the model's decision for the turn, or returns how the episode ends without one."""
        left = left_for_turn(episode, log, turn)
        if left is not None and left.used_up:
            return TurnResult(stop=StopReason.OUTPUT_LIMIT)
        request = next_action_request(episode, log, turn, must_answer)
        if left is not None:
            request.must_answer = must_answer or left.must_answer
            request.sampling.max_tokens = min(request.sampling.max_tokens, left.tokens)
        purchase = await self._purchase(episode, request, turn)
        [reply] = await self.charges.settle_and_reserve(episode, log, [purchase])
        if not isinstance(reply, Grant):
            return _rejected(reply)
        # What the money covers is all the model may write.
        request.sampling.max_tokens = reply.output_tokens or request.sampling.max_tokens
        tell_what_is_left(request, episode, log)
        log.unsent.discard(request.key)
        try:
            response = await self.orchestrator.next_action(request, MODEL_TIMEOUT_S)
        except TRANSIENT:
            raise
        except DomainError:
            # It rejects a call before it asks an engine.
            await self.charges.give_back(request.key)
            raise
        call = trajectory_pb2.ModelCall(
            key=request.key, response=response, granted_output_tokens=reply.output_tokens
        )
        await self.logs.append(log, [(turn, StepKind.MODEL, 0, call)])
        return None

    async def _purchase(
        self, episode: RunningEpisode, request: pb.NextActionRequest, turn: int
    ) -> Purchase:
        model = await self.models.find(episode.spec.model)
        # The size of the request bounds the size of the prompt that is built from it. What is
        # left of time and money is not in it yet: a retry must hold what the first attempt held.
        input_tokens = min(most_tokens(request.ByteSize()), self.prompt_tokens_max)
        return Purchase(
            key=request.key,
            turn=turn,
            tool=model.name,
            model=model.name,
            sku=model.sku,
            worst_case=token_worst_case(input_tokens, request.sampling.max_tokens),
        )


def _rejected(rejection: hold_pb2.Rejection) -> TurnResult:
    out_of_budget = rejection.reason == hold_pb2.REJECTION_REASON_BUDGET_EXHAUSTED
    stop = StopReason.BUDGET_EXHAUSTED if out_of_budget else StopReason.FAILED
    return TurnResult(stop=stop, message=rejection.message, budget_id=rejection.budget_id)


def next_action_request(
    episode: RunningEpisode, log: StepLog, turn: int, must_answer: bool
) -> pb.NextActionRequest:
    """Everything the model may know in this turn, but what is left of time and money."""
    request = pb.NextActionRequest(
        key=effect_key(episode.id, turn, StepKind.MODEL),
        model=episode.spec.model,
        prompt_mode=episode.spec.prompt_mode,
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
    )
    request.sampling.max_tokens = request.sampling.max_tokens or DEFAULT_MAX_TOKENS
    return request


def _must_call(spec: episode_pb2.EpisodeSpec, log: StepLog, turn: int) -> Sequence[str]:
    """The tools to call first, until one of them was called."""
    called = {
        invocation.observation.call.tool_name
        for number, calls in log.tool_calls.items()
        if number < turn
        for invocation in calls.values()
    }
    return [] if called & set(spec.first_tool_names) else spec.first_tool_names


def tell_what_is_left(request: pb.NextActionRequest, episode: RunningEpisode, log: StepLog) -> None:
    """Of time and money."""
    request.time_left.CopyFrom(duration_to_proto(_seconds_left(episode)))
    if (money := _money_left(episode, log)) is not None:
        request.money_left.CopyFrom(money)


def _money_left(episode: RunningEpisode, log: StepLog) -> money_pb2.Money | None:
    """Of the episode's own budget, which the episodes it called spend as well.

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


def _seconds_left(episode: RunningEpisode) -> float:
    ran = datetime.now(UTC) - episode.stored.create_time
    return max(0.0, episode.stored.new.time_limit_s - ran.total_seconds())


def past_turn(log: StepLog, turn: int) -> pb.PastTurn:
    """An earlier turn as the model sees it again."""
    response = log.model_calls[turn].response
    calls = log.tool_calls.get(turn, {})
    return pb.PastTurn(
        completion_text=response.completion_text,
        action=response.action,
        observations=[calls[index].observation for index in sorted(calls)],
    )
