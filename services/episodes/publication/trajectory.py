from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime

from episodes.competence.credit import credited_tools
from episodes.evaluations.models import JudgeVote, TrialOutcome
from episodes.keys import StepKind
from episodes.models import Ending, EpisodeFacts, Progress, Step, StopReason
from episodes.step_log.log import StepLog, observations
from episodes.step_log.running_episode import RunningEpisode
from podium.common.v1 import failure_pb2, money_pb2
from podium.episodes.v1 import check_pb2, episode_pb2, trajectory_pb2
from podium_kit.metering import InvalidUsage, PriceFactors, Usage
from podium_kit.money import InvalidMoney, Money
from podium_kit.verifiers.llm_judge import LlmJudge, votes_of
from podium_kit.wire import (
    duration_from_proto,
    duration_to_proto,
    money_to_proto,
    optional_money_from_proto,
    quantities_to_proto,
    timestamp_from_proto,
    timestamp_to_proto,
    usage_from_proto,
)

# What the episode itself did, its check left out.
OWN_KINDS = (StepKind.MODEL, StepKind.TOOL, StepKind.EXECUTOR)

# An episode shows at most so many; every turn has its own in the trajectory.
WARNINGS_MAX = 20


def build_trajectory(
    episode: RunningEpisode,
    log: StepLog,
    ending: Ending,
    progress: Progress,
    judgement: check_pb2.Judgement | None = None,
) -> trajectory_pb2.Trajectory:
    """Collects everything that the episode saw and did. Every step must be settled."""
    new, place = episode.stored.new, episode.stored.new.membership
    now = datetime.now(UTC)
    latency_s = (now - episode.stored.create_time).total_seconds()
    modelled_s = _modelled_latency_s(log)
    to_answer_s = _latency_to_answer_s(episode, judgement) or latency_s
    names = _weighable_names(episode)
    cost = _wire_cost(progress.cost)
    below = children_cost(log)
    quoted_costs = _quoted_costs(episode, log)
    return trajectory_pb2.Trajectory(
        episode_id=episode.id,
        group_id=place.group_id,
        group_size=place.size,
        sample_index=place.sample_index,
        task_id=place.task_id,
        tenant=new.tenant,
        policy_name=new.policy_name,
        policy_version=new.policy_version,
        preferences=episode.toolset.preferences,
        toolset_digest=new.toolset_digest.hex(),
        tool_names=names,
        task=episode.spec.task,
        prompt_mode=episode.spec.prompt_mode,
        turns=_turns(log),
        stop_reason=STOP_REASON_TO_WIRE[ending.stop_reason],
        answer=ending.answer,
        outcomes=_outcomes(judgement),
        unjudged_reason=_unjudged_reason(judgement),
        verifier_calls=_verifier_calls(log),
        features=trajectory_pb2.RewardFeatures(
            tool_call_counts=_call_counts(log, names),
            cost=_wire_cost(total_cost([*quoted_costs, below])),
            latency=duration_to_proto(to_answer_s + modelled_s),
            modelled_latency=duration_to_proto(modelled_s) if modelled_s else None,
            orchestrator_cost=_wire_cost(_orchestrator_cost(episode, log)),
        ),
        cost=cost,
        unpriced_call_count=progress.unpriced_call_count,
        latency=duration_to_proto(latency_s),
        start_time=timestamp_to_proto(episode.stored.create_time),
        end_time=timestamp_to_proto(now),
        training_consent=episode.toolset.training_consent,
        labels=new.labels,
        price_factors=episode.spec.price_factors,
        history=episode.spec.history,
        tools=episode.tool_definitions(),
        instruction=episode.toolset.instruction,
        failure=failure_pb2.Failure.FromString(ending.failure) if ending.failure else None,
        parent=episode.spec.parent if episode.spec.HasField("parent") else None,
        children_cost=_wire_cost(below),
        attachments=episode.spec.attachments,
        replay_of=episode.spec.replay_of,
    )


def trial_outcome(trajectory: trajectory_pb2.Trajectory, check: check_pb2.Check) -> TrialOutcome:
    """Returns what an evaluation records of the episode, the cost of its check apart."""
    judged = next(iter(trajectory.outcomes), None)
    children = [
        call.child.unpriced_call_count
        for turn in trajectory.turns
        for call in turn.tool_invocations
    ]
    checks = [optional_money_from_proto(call.cost) for call in trajectory.verifier_calls]
    return TrialOutcome(
        judged.score if judged else None,
        judged.explanation if judged else trajectory.unjudged_reason,
        optional_money_from_proto(trajectory.features.cost),
        optional_money_from_proto(trajectory.features.orchestrator_cost),
        total_cost(checks),
        trajectory.unpriced_call_count + sum(children),
        duration_from_proto(trajectory.features.latency),
        call_counts(trajectory),
        votes=_votes(check, trajectory.verifier_calls),
    )


def _votes(
    check: check_pb2.Check, calls: Iterable[trajectory_pb2.ToolInvocation]
) -> list[JudgeVote]:
    """Returns the verdict of each model that the check asked; empty for another check."""
    if check.verifier != LlmJudge.name:
        return []
    made = {call.observation.call.index: call for call in calls}
    judges = LlmJudge.model_validate_json(check.parameters_json).judges
    results = [made[i].observation.content if i in made else "" for i in range(len(judges))]
    return [
        JudgeVote(
            vote.judge,
            vote.score,
            made[index].observation.failure.message or vote.explanation,
            optional_money_from_proto(made[index].cost),
        )
        for index, vote in enumerate(votes_of(judges, results))
        if index in made
    ]


def call_counts(trajectory: trajectory_pb2.Trajectory) -> Counter[str]:
    """Counts the calls by tool, and by tool/model of a tool that offers several."""
    calls = [call for turn in trajectory.turns for call in turn.tool_invocations]
    return Counter(name for call in calls for name in _call_names(call))


def _call_names(call: trajectory_pb2.ToolInvocation) -> list[str]:
    tool = call.observation.call.tool_name
    return [tool, f"{tool}/{call.model}"] if call.model else [tool]


def facts_of(
    episode: RunningEpisode, log: StepLog, ending: Ending, trajectory: trajectory_pb2.Trajectory
) -> EpisodeFacts:
    """Returns what lists show of the episode beside its sums, and what competence counts."""
    seen = [each for turn in log.tool_calls for each in observations(log, turn)]
    failures = [each.failure for each in seen if each.HasField("failure")]
    if ending.failure:
        failures.append(failure_pb2.Failure.FromString(ending.failure))
    judged = next(iter(trajectory.outcomes), None)
    return EpisodeFacts(
        frozenset(each.call.tool_name for each in seen),
        frozenset(int(failure.kind) for failure in failures),
        judged.score if judged else None,
        credited_tools(episode, log, ending),
        episode.toolset.training_consent,
    )


def summarize(log: StepLog) -> Progress:
    billable = _billable(log, (*OWN_KINDS, StepKind.VERIFIER))
    usage = Usage.total([used for step in billable if (used := _usage(log, step)) is not None])
    sums = episode_pb2.Episode(
        usage=quantities_to_proto(usage),
        children_cost=_wire_cost(children_cost(log)),
        children_unpriced_call_count=sum(one.unpriced_call_count for one in _children(log)),
        warnings=_warnings(log)[:WARNINGS_MAX],
        all_tool_calls_failed=_all_calls_failed(log),
    )
    return Progress(
        turn_count=max((step.turn for step in log.steps), default=0),
        tool_call_count=sum(step.kind is StepKind.TOOL for step in billable),
        cost=total_cost([step.cost for step in billable]),
        unpriced_call_count=sum(step.cost is None for step in billable),
        usage=sums.SerializeToString(),
    )


def _all_calls_failed(log: StepLog) -> bool:
    seen = [each for turn in log.tool_calls for each in observations(log, turn)]
    return bool(seen) and all(each.HasField("failure") for each in seen)


def _warnings(log: StepLog) -> list[str]:
    failed = ["every tool call failed, so the answer rests on no result"]
    return (failed if _all_calls_failed(log) else []) + [
        f"turn {turn}: not shown to the model, whose context was full: {each}"
        for turn, call in sorted(log.model_calls.items())
        for each in call.response.left_out
    ]


def total_cost(costs: list[Money | None]) -> Money | None:
    """Sums the known costs; None when nothing was ever priced, or they have no sum."""
    known = [cost for cost in costs if cost is not None]
    # Calls that were never made cost a zero that takes the currency of the others.
    priced = [cost for cost in known if cost.amount] or known
    try:
        return sum(priced[1:], start=priced[0]) if priced else None
    except InvalidMoney:
        return None  # of two currencies, or larger than any amount: an episode ends all the same


def children_cost(log: StepLog) -> Money | None:
    return total_cost([optional_money_from_proto(child.cost) for child in _children(log)])


def _children(log: StepLog) -> list[episode_pb2.ChildEpisode]:
    return [
        call.child
        for turn in log.tool_calls.values()
        for call in turn.values()
        if call.HasField("child")
    ]


def _quoted_costs(
    episode: RunningEpisode, log: StepLog, kinds: tuple[StepKind, ...] = OWN_KINDS
) -> list[Money | None]:
    factors = PriceFactors.read(episode.spec.price_factors)
    return [factors.cost(step.cost, _sku(log, step)) for step in _billable(log, kinds)]


def _orchestrator_cost(episode: RunningEpisode, log: StepLog) -> Money | None:
    costs = _quoted_costs(episode, log, (StepKind.MODEL,))
    return None if None in costs else total_cost(costs)


def _sku(log: StepLog, step: Step) -> str:
    if step.kind is StepKind.MODEL:
        return log.model_calls[step.turn].response.sku
    invocation = log.invocation(step)
    return invocation.sku if invocation is not None else ""


def _turns(log: StepLog) -> list[trajectory_pb2.Turn]:
    costs = {(step.turn, step.kind, step.call_index): step.cost for step in log.steps}
    turns = []
    for number, stored_call in sorted(log.model_calls.items()):
        call = trajectory_pb2.ModelCall()
        call.CopyFrom(stored_call)
        _set_cost(call.cost, costs[number, StepKind.MODEL, 0])
        turn = trajectory_pb2.Turn(number=number, model_call=call)
        executed = log.executor_calls.get(number, {})
        pairs = zip(
            sorted(log.tool_calls.get(number, {}).items()), observations(log, number), strict=True
        )
        for (index, invocation), observed in pairs:
            entry = turn.tool_invocations.add()
            entry.CopyFrom(invocation)
            entry.observation.CopyFrom(observed)
            cost = costs[number, StepKind.TOOL, index]
            if index in executed:
                entry.executor.CopyFrom(executed[index])
                executors = costs[number, StepKind.EXECUTOR, index]
                _set_cost(entry.executor.cost, executors)
                known = cost is not None and executors is not None
                cost = total_cost([cost, executors]) if known else None
            _set_cost(entry.cost, cost)
        turns.append(turn)
    return turns


def _verifier_calls(log: StepLog) -> list[trajectory_pb2.ToolInvocation]:
    costs = {s.call_index: s.cost for s in log.steps if s.kind is StepKind.VERIFIER}
    calls = []
    for index, invocation in sorted(log.verifier_calls.items()):
        call = trajectory_pb2.ToolInvocation()
        call.CopyFrom(invocation)
        _set_cost(call.cost, costs[index])
        calls.append(call)
    return calls


def _outcomes(judgement: check_pb2.Judgement | None) -> list[trajectory_pb2.Outcome]:
    if judgement is None or not judgement.HasField("score"):
        return []
    outcome = trajectory_pb2.Outcome(
        verifier=judgement.verifier,
        verifier_version=judgement.verifier_version,
        score=judgement.score,
        explanation=judgement.explanation,
    )
    return [outcome]


def _unjudged_reason(judgement: check_pb2.Judgement | None) -> str:
    unjudged = judgement is not None and not judgement.HasField("score")
    return judgement.explanation if judgement is not None and unjudged else ""


def _latency_to_answer_s(
    episode: RunningEpisode, judgement: check_pb2.Judgement | None
) -> float | None:
    if judgement is None or not judgement.HasField("answer_time"):
        return None
    answered = timestamp_from_proto(judgement.answer_time)
    return (answered - episode.stored.create_time).total_seconds()


def _modelled_latency_s(log: StepLog) -> float:
    """Sums the simulated models' latencies in seconds; calls of a turn run side by side."""
    turns = (
        [call.latency for call in calls.values() if call.latency_modelled]
        for calls in log.tool_calls.values()
    )
    return sum(max(map(duration_from_proto, turn), default=0.0) for turn in turns)


def _billable(log: StepLog, kinds: tuple[StepKind, ...]) -> list[Step]:
    return [step for step in log.steps if step.kind in kinds]


def _set_cost(field: money_pb2.Money, cost: Money | None) -> None:
    if cost is not None:
        field.CopyFrom(money_to_proto(cost))


def _wire_cost(cost: Money | None) -> money_pb2.Money | None:
    return None if cost is None else money_to_proto(cost)


def _weighable_names(episode: RunningEpisode) -> list[str]:
    models = [f"{tool.name}/{alias}" for tool in episode.toolset.tools for alias in tool.model_skus]
    weights = episode.toolset.preferences.tools
    names = [tool.name for tool in episode.toolset.tools]
    return [*names, *sorted(name for name in models if name in weights)]


def _call_counts(log: StepLog, names: list[str]) -> list[int]:
    """Counts calls per tool, m_tool of the paper, zeros and the last turn included."""
    calls = [call for turn in log.tool_calls.values() for call in turn.values()]
    called = Counter(name for call in calls for name in _call_names(call))
    return [called[name] for name in names]


def _usage(log: StepLog, step: Step) -> Usage | None:
    used = log.charged_usage(step)
    try:
        return None if used is None else usage_from_proto(used)
    except InvalidUsage:
        return None  # the ledger recorded it without a price


STOP_REASON_TO_WIRE = {
    reason: episode_pb2.StopReason.Value(f"STOP_REASON_{reason.name}") for reason in StopReason
}
