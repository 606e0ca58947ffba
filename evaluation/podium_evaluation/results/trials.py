"""The trials of a run as the platform recorded them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium_evaluation.runs.names import path_of
from podium_kit.client.gateway import Gateway
from podium_kit.wire import duration_from_proto, optional_money_from_proto

JUDGED, UNJUDGED, NOT_RUN, DIVERGED = "judged", "unjudged", "not_run", "diverged"


@dataclass(frozen=True)
class TrialVote:
    """The verdict of one of the models that judge a trial; no score is not a score of 0."""

    judge: str
    score: float | None
    explanation: str
    cost: Decimal | None

    @classmethod
    def of(cls, vote: pb.JudgeVote) -> "TrialVote":
        cost = optional_money_from_proto(vote.cost)
        score = vote.score if vote.HasField("score") else None
        return cls(vote.judge, score, vote.explanation, cost.amount if cost else None)

    def values(self) -> dict[str, Any]:
        """A JSON object, with money as text."""
        return {**vars(self), "cost": None if self.cost is None else f"{self.cost:f}"}


@dataclass(frozen=True)
class TrialResult:
    arm: str
    item_id: str
    family: str
    question: str
    repeat: int
    episode_id: str
    state: str
    stop_reason: str
    score: float | None
    """None where it is not judged, which is not 0."""
    explanation: str
    cost: Decimal | None
    """Without its check; None where a call had no price, which is not 0."""
    orchestrator_cost: Decimal | None
    """The part of it that is the orchestrator's own tokens."""
    judge_cost: Decimal | None
    simulator_cost: Decimal | None
    """Cost of the model that played its user."""
    latency_s: float
    turns: int
    tool_calls: int
    calls: Mapping[str, int]
    """Counts by tool, and by tool/model of a tool that offers several models."""
    expected_calls: tuple[tuple[str, str], ...] = ()
    """Tool and arguments as JSON."""
    votes: tuple[TrialVote, ...] = ()
    """Votes of the models that its check asked."""
    target: str = ""
    """The right answer where its check states one, else the check's parameters as JSON."""

    @classmethod
    def of(cls, trial: pb.Trial) -> "TrialResult":
        cost = optional_money_from_proto(trial.cost)
        own = optional_money_from_proto(trial.orchestrator_cost)
        judge = optional_money_from_proto(trial.judge_cost)
        simulator = optional_money_from_proto(trial.simulator_cost)
        over = bool(trial.stop_reason)
        reason = episode_pb2.StopReason.Name(trial.stop_reason)
        known = cost is not None and not trial.unpriced_call_count
        return cls(
            trial.arm,
            trial.item_id,
            trial.item.family,
            trial.item.question,
            trial.repeat,
            trial.episode_id,
            _word(pb.TrialState.Name(trial.state), "TRIAL_STATE_"),
            _word(reason, "STOP_REASON_") if over else "",
            trial.score if trial.HasField("score") else None,
            trial.explanation,
            cost.amount if cost is not None and known else None,
            own.amount if own is not None else None,
            judge.amount if judge else None,
            simulator.amount if simulator else None,
            duration_from_proto(trial.latency),
            trial.turn_count,
            trial.tool_call_count,
            dict(trial.call_counts),
            tuple((each.tool_name, each.arguments_json) for each in trial.item.expected_calls),
            tuple(map(TrialVote.of, trial.votes)),
            _target(trial.item.check.parameters_json),
        )

    def values(self) -> dict[str, Any]:
        """A JSON object, with money as text."""
        found = dict(vars(self))
        for name in ("cost", "orchestrator_cost", "judge_cost", "simulator_cost"):
            found[name] = None if found[name] is None else f"{found[name]:f}"
        found["votes"] = [vote.values() for vote in self.votes]
        return found


def _target(parameters_json: str) -> str:
    parameters = json.loads(parameters_json or "{}")
    stated = [parameters[name] for name in ("expected", "reference") if name in parameters]
    return str(stated[0]) if stated else parameters_json


@dataclass(frozen=True)
class Results:
    evaluation: pb.Evaluation
    progress: Sequence[pb.ArmProgress]
    trials: Sequence[TrialResult]
    verdicts: Sequence[pb.Verdict] = ()
    """Verdicts of judges other than the trials' own checks."""
    calibrations: Sequence[pb.JudgeCalibration] = ()
    """Calibrations of the tenant's judges, newest first."""

    @property
    def arms(self) -> list[str]:
        return [arm.name for arm in self.evaluation.arms]

    def of(self, arm: str) -> list[TrialResult]:
        return [trial for trial in self.trials if trial.arm == arm]


def _word(name: str, prefix: str) -> str:
    """ "turn_limit" of "STOP_REASON_TURN_LIMIT": a name in files, where enum_word is for people."""
    return name.removeprefix(prefix).lower()


async def read_results(gateway: Gateway, evaluation_id: str) -> Results:
    """Raises Rejected, Unreachable."""
    path = path_of(evaluation_id)
    found = await gateway.get(path, pb.GetEvaluationResponse)
    listed = await gateway.all(
        f"{path}/trials", pb.ListTrialsResponse, page_size=500, with_items="true"
    )
    judged = await gateway.all(f"{path}/verdicts", pb.ListVerdictsResponse, page_size=500)
    known = await gateway.all(
        "/v1/judge-calibrations", pb.ListJudgeCalibrationsResponse, page_size=500
    )
    trials = list(map(TrialResult.of, listed.trials))
    return Results(
        found.evaluation,
        list(found.progress),
        trials,
        list(judged.verdicts),
        list(known.calibrations),
    )


def scores_by_item(trials: Iterable[TrialResult]) -> dict[str, list[float]]:
    """Scores of the judged trials."""
    found: dict[str, list[float]] = {}
    for trial in trials:
        if trial.score is not None:
            found.setdefault(trial.item_id, []).append(trial.score)
    return found


def costs_by_item(trials: Iterable[TrialResult]) -> dict[str, list[float]] | None:
    """Costs of the judged trials; None where any is unknown."""
    found: dict[str, list[float]] = {}
    for trial in trials:
        if trial.score is None:
            continue
        if trial.cost is None:
            return None
        found.setdefault(trial.item_id, []).append(float(trial.cost))
    return found
