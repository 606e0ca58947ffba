"""Agreement of a run's judges: what each found, where they differ, and how far each two agree.

Judges are the models that the trials' own checks asked and those that were asked afterwards; right
is a score of 1. An unjudged trial agrees and disagrees with nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations

from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium_evaluation.results.trials import TrialResult
from podium_evaluation.statistics.agreement import cohens_kappa, fleiss_kappa
from podium_kit.wire import optional_money_from_proto
from podium_training.gate import Interval

# Of the trials' own verdicts; no tool has such a name.
OWN_CHECK = "the trials' checks"

Found = Mapping[str, bool | None]
"""A judge's verdicts by episode; None where it gave none."""


@dataclass(frozen=True)
class JudgeAgreement:
    first: str
    second: str
    trials: int
    """Trials that both judged."""
    equal: int
    """Count of these trials that both called right or both called wrong."""
    kappa: Interval | None
    """None where it is not defined."""


@dataclass(frozen=True)
class AllAgree:
    """Agreement of three judges or more, on the trials that all of them judged."""

    judges: int
    trials: int
    kappa: float | None
    """Fleiss' kappa; None where it is not defined."""


@dataclass(frozen=True)
class JudgeFigures:
    judge: str
    right: int
    wrong: int
    unjudged: int
    cost: Decimal | None
    """Cost of asking it about the run's trials; None where none is known."""


@dataclass(frozen=True)
class Disagreement:
    """A trial that one judge calls right and another wrong."""

    item_id: str
    arm: str
    episode_id: str
    score: float | None
    """The trial's own: None where its judges have no majority."""
    verdicts: Mapping[str, bool | None]


def verdicts_by_judge(
    trials: Sequence[TrialResult], verdicts: Sequence[pb.Verdict]
) -> dict[str, Found]:
    """The verdicts of each judge, those of the trials' own checks first."""
    judges: dict[str, dict[str, bool | None]] = {
        OWN_CHECK: {t.episode_id: t.score == 1 for t in trials if t.score is not None}
    }
    for trial in trials:
        for vote in trial.votes:
            right = None if vote.score is None else vote.score == 1
            judges.setdefault(vote.judge, {})[trial.episode_id] = right
    for verdict in verdicts:
        found = verdict.score == 1 if verdict.HasField("score") else None
        of_judge = judges.setdefault(verdict.judge, {})
        if found is not None or of_judge.get(verdict.episode_id) is None:
            of_judge[verdict.episode_id] = found
    return dict(judges)


def agreements(judges: Mapping[str, Found]) -> list[JudgeAgreement]:
    """Every pair of judges, the trials' own checks among them."""
    return [_agreement(judges, first, second) for first, second in combinations(judges, 2)]


def all_agree(judges: Mapping[str, Found]) -> AllAgree | None:
    """None of fewer than three judges, of whom the trials' own checks are none."""
    asked = [found for judge, found in judges.items() if judge != OWN_CHECK]
    if len(asked) < 3:
        return None
    rows = [[found.get(episode) for found in asked] for episode in asked[0]]
    whole = [[right for right in row if right is not None] for row in rows if None not in row]
    return AllAgree(len(asked), len(whole), fleiss_kappa(whole))


def judge_figures(
    judges: Mapping[str, Found], trials: Sequence[TrialResult], verdicts: Sequence[pb.Verdict]
) -> list[JudgeFigures]:
    costs: dict[str, Decimal] = {}
    asked = [(vote.judge, vote.cost) for trial in trials for vote in trial.votes]
    for verdict in verdicts:
        money = optional_money_from_proto(verdict.cost)
        asked.append((verdict.judge, money.amount if money else None))
    for judge, cost in asked:
        if cost is not None:
            costs[judge] = costs.get(judge, Decimal(0)) + cost
    return [
        JudgeFigures(
            judge,
            sum(right is True for right in found.values()),
            sum(right is False for right in found.values()),
            sum(right is None for right in found.values()),
            costs.get(judge),
        )
        for judge, found in judges.items()
        if judge != OWN_CHECK
    ]


def disagreements(judges: Mapping[str, Found], trials: Sequence[TrialResult]) -> list[Disagreement]:
    """The trials on which verdicts differ, those without a majority first."""
    found = []
    for trial in trials:
        id = trial.episode_id
        verdicts = {judge: given[id] for judge, given in judges.items() if id in given}
        if {True, False} <= set(verdicts.values()):
            found.append(Disagreement(trial.item_id, trial.arm, id, trial.score, verdicts))
    return sorted(found, key=lambda each: each.score is not None)


def _agreement(judges: Mapping[str, Found], first: str, second: str) -> JudgeAgreement:
    one, other = judges[first], judges[second]
    pairs = [
        (right, second_right)
        for episode, right in one.items()
        if right is not None and (second_right := other.get(episode)) is not None
    ]
    equal = sum(a == b for a, b in pairs)
    return JudgeAgreement(first, second, len(pairs), equal, cohens_kappa(pairs))
