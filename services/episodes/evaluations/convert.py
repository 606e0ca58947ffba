from collections.abc import Sequence

from episodes.errors import InvalidEvaluation
from episodes.evaluations.models import (
    ArmProgress,
    EnvironmentVerdict,
    EvaluationState,
    Item,
    JudgeVerdict,
    JudgeVote,
    NewEvaluation,
    StoredEvaluation,
    StoredTrial,
    TrialState,
)
from episodes.evaluations.sequential import ArmScores, compare
from episodes.evaluations.store_calibrations import StoredCalibration
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium_kit.rpc.identity import Identity
from podium_kit.verifiers.environment import EnvironmentCheck
from podium_kit.wire import (
    duration_to_proto,
    money_to_proto,
    optional_money_from_proto,
    timestamp_to_proto,
)

STATES = {
    state: pb.EvaluationState.Value(f"EVALUATION_STATE_{state.name}") for state in EvaluationState
}
TRIAL_STATES = {state: pb.TrialState.Value(f"TRIAL_STATE_{state.name}") for state in TrialState}
STATE_FROM_WIRE = {number: state for state, number in STATES.items()}


def evaluation_from_proto(
    message: pb.Evaluation, items: Sequence[pb.EvaluationItem], creator: Identity
) -> NewEvaluation:
    if twice := repeated([arm.name for arm in message.arms]):
        raise InvalidEvaluation(f"two arms are called {twice}; names of arms are unique")
    # What the service sets is left out.
    spec = pb.Evaluation(
        id=message.id,
        suite=message.suite,
        comparability_key=message.comparability_key,
        arms=message.arms,
        repeats=message.repeats or 1,
        budget_id=message.budget_id,
    )
    if twice := repeated([item.id for item in items]):
        raise InvalidEvaluation(f"two items have the id {twice}; ids are unique within a suite")
    return NewEvaluation(
        message.id,
        creator.tenant,
        creator.subject,
        spec.SerializeToString(deterministic=True),
        {arm.name: arm.model for arm in message.arms},
        spec.repeats,
        tuple(map(_item, items)),
    )


def _item(item: pb.EvaluationItem) -> Item:
    body = item.SerializeToString(deterministic=True)
    return Item(item.id, body, item.check.verifier == EnvironmentCheck.name)


def verdict_from_proto(request: pb.RecordVerdictRequest) -> EnvironmentVerdict:
    return EnvironmentVerdict(
        place=request.place,
        score=request.score if request.HasField("score") else None,
        explanation=request.explanation,
        not_run=request.not_run,
        simulator_cost=optional_money_from_proto(request.simulator_cost),
        judge_cost=optional_money_from_proto(request.judge_cost),
        unpriced_call_count=request.unpriced_call_count,
        votes=[_vote(each) for each in request.votes],
    )


def _vote(message: pb.JudgeVote) -> JudgeVote:
    score = message.score if message.HasField("score") else None
    cost = optional_money_from_proto(message.cost)
    return JudgeVote(message.judge, score, message.explanation, cost)


def _vote_to_proto(vote: JudgeVote) -> pb.JudgeVote:
    message = pb.JudgeVote(judge=vote.judge, score=vote.score, explanation=vote.explanation)
    if vote.cost is not None:
        message.cost.CopyFrom(money_to_proto(vote.cost))
    return message


def repeated(names: Sequence[str]) -> str:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""


def check_live(message: pb.Evaluation) -> None:
    """Raises InvalidEvaluation for what the contract's bounds cannot express."""
    traffic = message.traffic
    if len(message.arms) != 2:
        raise InvalidEvaluation("give two arms: the tenant's own, and the candidate")
    if twice := repeated([arm.name for arm in message.arms]):
        raise InvalidEvaluation(f"two arms are called {twice}; names of arms are unique")
    candidate = message.arms[1]
    if not (candidate.model or candidate.policy):
        raise InvalidEvaluation("the candidate has neither a model nor a policy; give one")
    most = 0.5 if traffic.use == pb.LIVE_USE_AB else 1.0
    if not 0 < traffic.share <= most:
        raise InvalidEvaluation(f"traffic.share is {traffic.share:g}; give one up to {most:g}")
    if traffic.use == pb.LIVE_USE_SHADOW and not message.budget_id:
        raise InvalidEvaluation("shadows are paid besides the traffic; give their budget_id")
    if traffic.judges and traffic.use == pb.LIVE_USE_AB:
        raise InvalidEvaluation("traffic.judges are for shadows; an A/B test has users' verdicts")


def live_from_proto(message: pb.Evaluation, creator: Identity) -> NewEvaluation:
    spec = pb.Evaluation(
        id=message.id,
        suite=f"live/{message.traffic.policy or 'default'}",
        arms=message.arms,
        repeats=1,
        budget_id=message.budget_id,
        traffic=message.traffic,
    )
    return NewEvaluation(
        message.id,
        creator.tenant,
        creator.subject,
        spec.SerializeToString(deterministic=True),
        {arm.name: arm.model for arm in message.arms},
        1,
        (),
    )


def check_calibration(message: pb.JudgeCalibration) -> None:
    """Raises InvalidEvaluation for counts that are not those of one set of labelled answers."""
    if twice := repeated([each.judge for each in message.judges]):
        raise InvalidEvaluation(f"the judge {twice} is named twice")
    labelled = message.labelled_right + message.labelled_wrong
    for each in message.judges:
        right = each.right_called_right + each.right_called_wrong
        wrong = each.wrong_called_right + each.wrong_called_wrong
        counted = right + wrong + each.unjudged
        if counted != labelled or right > message.labelled_right or wrong > message.labelled_wrong:
            raise InvalidEvaluation(
                f"the counts of {each.judge} are not those of {message.labelled_right} answers"
                f" labelled right and {message.labelled_wrong} labelled wrong"
            )


def calibration_to_proto(stored: StoredCalibration) -> pb.JudgeCalibration:
    message = pb.JudgeCalibration.FromString(stored.body)
    message.created_by = stored.subject
    message.create_time.CopyFrom(timestamp_to_proto(stored.create_time))
    return message


def comparison_to_proto(baseline: ArmScores, candidate: ArmScores) -> pb.LiveComparison:
    found = compare(baseline, candidate)
    return pb.LiveComparison(
        baseline_count=baseline.count,
        candidate_count=candidate.count,
        difference=found.difference,
        lower=found.lower,
        upper=found.upper,
        p_value=found.p_value,
    )


def evaluation_to_proto(stored: StoredEvaluation) -> pb.Evaluation:
    message = pb.Evaluation.FromString(stored.spec)
    message.suite_digest = stored.suite_digest.hex()
    message.state = STATES[stored.state]
    message.reason = stored.reason
    message.create_time.CopyFrom(timestamp_to_proto(stored.create_time))
    if stored.end_time is not None:
        message.end_time.CopyFrom(timestamp_to_proto(stored.end_time))
    return message


def progress_to_proto(progress: ArmProgress) -> pb.ArmProgress:
    counts = progress.counts
    return pb.ArmProgress(
        arm=progress.arm,
        planned_count=counts.get(TrialState.PLANNED, 0),
        running_count=counts.get(TrialState.RUNNING, 0),
        judged_count=counts.get(TrialState.JUDGED, 0),
        unjudged_count=counts.get(TrialState.UNJUDGED, 0),
        not_run_count=counts.get(TrialState.NOT_RUN, 0),
        diverged_count=counts.get(TrialState.DIVERGED, 0),
        score_sum=progress.score_sum,
        cost=money_to_proto(progress.cost),
        judge_cost=money_to_proto(progress.judge_cost),
        simulator_cost=money_to_proto(progress.simulator_cost),
        unpriced_call_count=progress.unpriced_call_count,
    )


def trial_to_proto(trial: StoredTrial) -> pb.Trial:
    planned, outcome = trial.planned, trial.outcome
    message = pb.Trial(
        place=planned.place,
        arm=planned.arm,
        item_id=trial.item.id,
        repeat=planned.repeat,
        episode_id=planned.episode_id,
        state=TRIAL_STATES[trial.state],
        score=outcome.score,
        explanation=outcome.explanation,
        unpriced_call_count=outcome.unpriced_call_count,
        turn_count=trial.turn_count,
        tool_call_count=trial.tool_call_count,
        call_counts=outcome.call_counts,
        votes=map(_vote_to_proto, outcome.votes),
    )
    if trial.stop_reason:
        reason = f"STOP_REASON_{trial.stop_reason.upper()}"
        message.stop_reason = episode_pb2.StopReason.Value(reason)
        message.latency.CopyFrom(duration_to_proto(outcome.latency_s))
    if outcome.cost is not None:
        message.cost.CopyFrom(money_to_proto(outcome.cost))
    if outcome.orchestrator_cost is not None:
        message.orchestrator_cost.CopyFrom(money_to_proto(outcome.orchestrator_cost))
    if outcome.judge_cost is not None:
        message.judge_cost.CopyFrom(money_to_proto(outcome.judge_cost))
    if outcome.simulator_cost is not None:
        message.simulator_cost.CopyFrom(money_to_proto(outcome.simulator_cost))
    if trial.item.body:
        message.item.CopyFrom(pb.EvaluationItem.FromString(trial.item.body))
    return message


def judge_verdict_from_proto(message: pb.Verdict) -> JudgeVerdict:
    return JudgeVerdict(
        message.place,
        message.judge,
        message.prompt_digest,
        message.verifier,
        message.verifier_version,
        message.score if message.HasField("score") else None,
        message.explanation,
        message.call_id,
        optional_money_from_proto(message.cost),
    )


def judge_verdict_to_proto(verdict: JudgeVerdict) -> pb.Verdict:
    message = pb.Verdict(
        place=verdict.place,
        episode_id=verdict.episode_id,
        judge=verdict.judge,
        verifier=verdict.verifier,
        verifier_version=verdict.verifier_version,
        prompt_digest=verdict.prompt_digest,
        score=verdict.score,
        explanation=verdict.explanation,
        call_id=verdict.call_id,
    )
    if verdict.cost is not None:
        message.cost.CopyFrom(money_to_proto(verdict.cost))
    if verdict.create_time is not None:
        message.create_time.CopyFrom(timestamp_to_proto(verdict.create_time))
    return message
