"""Trajectories from the wire to episodes; nothing unusable gets past here."""

import math
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from podium.common.v1 import failure_pb2
from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium.episodes.v1.trajectory_pb2 import Turn
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium_training.grpo.data.episodes import Episode, GroupKey, Limits, Reason, Rejected
from podium_training.grpo.model.grammar import Constraint, ConstraintError
from podium_training.grpo.model.samples import Row
from podium_training.grpo.objective.rewards import Features, Preferences
from podium_training.tasks.task import Split

# Less likely tokens are not sampled; engines write a large negative number for minus infinity.
LOGPROB_MIN = -100.0
INTERRUPTED = {episode_pb2.STOP_REASON_CANCELLED, episode_pb2.STOP_REASON_FAILED}
UNAVAILABLE = {
    failure_pb2.FAILURE_KIND_RATE_LIMITED,
    failure_pb2.FAILURE_KIND_TIMEOUT,
    failure_pb2.FAILURE_KIND_UNAVAILABLE,
}
Response = orchestrator_pb.NextActionResponse


def episode_from_proto(trajectory: trajectory_pb2.Trajectory, limits: Limits) -> Episode:
    if not trajectory.training_consent:
        raise Rejected(Reason.NO_CONSENT)
    _check_whole(trajectory)
    _check_use(trajectory)
    answered = [turn for turn in trajectory.turns if turn.model_call.HasField("response")]
    if not answered:
        raise Rejected(Reason.INTERRUPTED, "no model answered")
    responses = [turn.model_call.response for turn in answered]
    tools = tuple(trajectory.tool_names)
    return Episode(
        id=trajectory.episode_id,
        group=GroupKey(trajectory.tenant, trajectory.group_id),
        group_size=trajectory.group_size,
        task_id=trajectory.task_id,
        rows=tuple(_row(turn, limits) for turn in answered),
        constraints=_constraints(responses),
        tools=tools,
        features=_features(trajectory, answered),
        currency=trajectory.cost.currency_code,
        preferences=_preferences(trajectory, tools),
        model_versions=tuple(response.model_version for response in responses),
    )


def _check_whole(trajectory: trajectory_pb2.Trajectory) -> None:
    if trajectory.stop_reason == episode_pb2.STOP_REASON_UNSPECIFIED:
        raise Rejected(Reason.MALFORMED, "it does not say how it ended")
    if [turn.number for turn in trajectory.turns] != list(range(1, len(trajectory.turns) + 1)):
        raise Rejected(Reason.MALFORMED, "turns are missing")


def _check_use(trajectory: trajectory_pb2.Trajectory) -> None:
    if trajectory.labels.get("split") == Split.HELD_OUT:
        raise Rejected(Reason.HELD_OUT, trajectory.task_id)
    if trajectory.stop_reason in INTERRUPTED:
        raise Rejected(Reason.INTERRUPTED, episode_pb2.StopReason.Name(trajectory.stop_reason))
    # What a deadline cuts off has no known cost; the episode earns nothing, whatever it cost.
    out_of_time = trajectory.stop_reason == episode_pb2.STOP_REASON_DEADLINE
    unpriced = trajectory.unpriced_call_count and not out_of_time
    if unpriced or not trajectory.HasField("cost"):
        raise Rejected(Reason.UNPRICED, f"{trajectory.unpriced_call_count} calls")
    if not trajectory.outcomes:
        raise Rejected(Reason.NOT_JUDGED, trajectory.unjudged_reason)


def _row(turn: trajectory_pb2.Turn, limits: Limits) -> Row:
    response = turn.model_call.response
    prompt, completion = response.prompt_token_ids, response.completion_token_ids
    if not prompt or not completion:
        raise Rejected(Reason.NO_TOKENS)
    if len(response.completion_logprobs) != len(completion):
        raise Rejected(
            Reason.BAD_LOGPROB, f"{len(response.completion_logprobs)} for {len(completion)} tokens"
        )
    if len(prompt) + len(completion) > limits.row_tokens_max:
        raise Rejected(Reason.TOO_LONG, f"{len(prompt) + len(completion)} tokens")
    if not all(0 <= token < limits.vocabulary for token in (*prompt, *completion)):
        raise Rejected(Reason.TOKEN_OUT_OF_RANGE)
    if not all(LOGPROB_MIN <= value <= 0 for value in response.completion_logprobs):
        raise Rejected(Reason.BAD_LOGPROB, f"not from {LOGPROB_MIN} to 0")
    # An engine that is asked by another API than vLLM's does not say its template.
    if limits.prompt_digest and response.prompt_digest not in ("", limits.prompt_digest):
        raise Rejected(Reason.OTHER_TOKENIZER, f"chat template {response.prompt_digest[:12]}")
    if limits.text_of and not _says(limits.text_of(completion), response.completion_text):
        raise Rejected(Reason.OTHER_TOKENIZER, "its tokens say something else than was recorded")
    return Row(
        tuple(prompt),
        tuple(completion),
        tuple(response.completion_logprobs),
        1.0 if limits.imitated else _temperature(response.sampling),
        response.constraint_digest,
        is_exemplary(turn),
        _is_malformed(turn),
    )


def _says(text: str, recorded: str) -> bool:
    """Engines leave a thought out of the text."""
    return recorded.strip() in text.strip()


def _temperature(sampling: orchestrator_pb.Sampling) -> float:
    nucleus = sampling.top_p if sampling.HasField("top_p") else 1.0
    if not (math.isfinite(sampling.temperature) and sampling.temperature > 0 and nucleus >= 1):
        raise Rejected(
            Reason.TRUNCATED_SAMPLING, f"temperature {sampling.temperature}, top_p {nucleus}"
        )
    return sampling.temperature


def _constraints(responses: Sequence[Response]) -> dict[str, Constraint]:
    try:
        return {
            response.constraint_digest: Constraint.recorded(
                response.constraint_json_schema, response.constraint_digest
            )
            for response in responses
            if response.constraint_digest
        }
    except ConstraintError as error:
        raise Rejected(Reason.UNKNOWN_CONSTRAINT, str(error)) from error


def _features(trajectory: trajectory_pb2.Trajectory, answered: Sequence[Turn]) -> Features:
    recorded = trajectory.features
    if len(recorded.tool_call_counts) != len(trajectory.tool_names):
        raise Rejected(Reason.MALFORMED, "tool counts and names differ in number")
    latency_s = recorded.latency.ToNanoseconds() / 1e9
    try:
        cost = float(Decimal(recorded.cost.amount))
    except (InvalidOperation, ValueError) as error:
        raise Rejected(Reason.MALFORMED, "the cost is not a decimal") from error
    scores = [outcome.score for outcome in trajectory.outcomes]
    if not all(0 <= score <= 1 for score in scores):
        raise Rejected(Reason.MALFORMED, f"an outcome is from 0 to 1, not {scores}")
    if not (math.isfinite(cost) and min(cost, latency_s, *recorded.tool_call_counts, 0) >= 0):
        raise Rejected(Reason.MALFORMED, "cost, latency and calls must be 0 or more")
    # Several verifiers must all agree, and half solved is not solved (paper, section 3.2).
    solved = all(score == 1 for score in scores)
    counts = tuple(recorded.tool_call_counts)
    malformed_share = sum(map(_is_malformed, answered)) / len(answered)
    unavailable_share = _unavailable_share(trajectory)
    return Features(counts, solved, cost, latency_s, unavailable_share, malformed_share)


def _unavailable_share(trajectory: trajectory_pb2.Trajectory) -> float:
    calls = [call.observation for turn in trajectory.turns for call in turn.tool_invocations]
    failed = sum(call.failure.kind in UNAVAILABLE for call in calls if call.HasField("failure"))
    return failed / len(calls) if calls else 0.0


def _preferences(trajectory: trajectory_pb2.Trajectory, tools: tuple[str, ...]) -> Preferences:
    wanted = trajectory.preferences
    try:
        return Preferences(
            tuple(wanted.tools.get(name, 0.0) for name in tools),
            wanted.outcome,
            wanted.compute,
            wanted.latency,
        )
    except ValueError as error:
        raise Rejected(Reason.MALFORMED, str(error)) from error


def is_exemplary(turn: Turn) -> bool:
    """Returns whether its reply could be read, to its end, and none of its tool calls failed."""
    failed = any(call.observation.HasField("failure") for call in turn.tool_invocations)
    return not failed and not _is_malformed(turn)


def _is_malformed(turn: Turn) -> bool:
    return turn.model_call.response.action.HasField("malformed")
