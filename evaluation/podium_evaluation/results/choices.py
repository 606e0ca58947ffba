"""Calls of arms: the cost of their own tokens, and whether their choices collapse onto one model.

Experts are the arms that always ask one model (`rule/always/TOOL/MODEL`). With two of them or more,
an arm is placed between the best of them and the oracle, which chooses one for each item.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from podium_evaluation.results.baselines import ORACLE, ItemOutcome, baselines, outcomes
from podium_evaluation.results.trials import TrialResult
from podium_evaluation.statistics.intervals import mean_interval
from podium_evaluation.statistics.measures import evenness, gap_closed, top_share
from podium_training.gate import Interval


@dataclass(frozen=True)
class ArmChoices:
    arm: str
    orchestrator_cost: Interval | None
    """USD a trial for the orchestrator's own tokens; None where it is unknown."""
    calls: Mapping[str, float]
    """Calls a trial, by tool, or by tool/model of a tool that offers several models."""
    top_share: float | None
    """The share of what is called most; None where nothing is called."""
    evenness: float | None
    """Entropy of the calls over that of all that any arm called: 0 where one is always called."""
    over_escalation: float | None
    """The share of trials that call the most expensive expert where a cheaper one is right."""
    gap_closed: float | None
    """The share of the gap between the best expert and the oracle that the arm closes."""


def arm_choices(
    by_arm: Mapping[str, Sequence[TrialResult]],
    experts: Mapping[str, str],
    known: Sequence[ItemOutcome] = (),
) -> list[ArmChoices]:
    """The choices of each arm; `experts` names what the arms call that always ask one model.

    The best expert is that of the known items, or of halves of the items themselves.
    """
    called = {arm: _called(trials) for arm, trials in by_arm.items()}
    names = len({name for each in called.values() for name in each})
    asked = {arm: by_arm[arm] for arm in experts if arm in by_arm}
    return [
        ArmChoices(
            arm,
            _own_cost(trials),
            {name: count / len(trials) for name, count in sorted(called[arm].items())},
            top_share(list(called[arm].elements())) if called[arm] else None,
            evenness(list(called[arm].elements()), names),
            _over_escalation(trials, asked, experts),
            _gap_closed(trials, asked, known),
        )
        for arm, trials in by_arm.items()
    ]


def _called(trials: Sequence[TrialResult]) -> Counter[str]:
    """Calls by model where the tool offers several, else by tool."""
    total: Counter[str] = Counter()
    for trial in trials:
        total.update(trial.calls)
    several = {name.partition("/")[0] for name in total if "/" in name}
    return Counter({name: count for name, count in total.items() if name not in several})


def _own_cost(trials: Sequence[TrialResult]) -> Interval | None:
    found: dict[str, list[float]] = {}
    for trial in trials:
        if trial.score is not None:
            if trial.orchestrator_cost is None:
                return None
            found.setdefault(trial.item_id, []).append(float(trial.orchestrator_cost))
    return mean_interval(list(found.values())) if found else None


def _over_escalation(
    trials: Sequence[TrialResult],
    asked: Mapping[str, Sequence[TrialResult]],
    experts: Mapping[str, str],
) -> float | None:
    items = {item.item_id: item.arms for item in _judged(asked)}
    scored = [trial for trial in trials if trial.item_id in items and trial.score is not None]
    if len(asked) < 2 or not scored:
        return None
    costs = {arm: fmean(each[arm].cost for each in items.values()) for arm in asked}
    highest = max(costs, key=lambda arm: costs[arm])
    return fmean(
        bool(trial.calls.get(experts[highest]))
        and any(choice.score == 1 for arm, choice in items[trial.item_id].items() if arm != highest)
        for trial in scored
    )


def _gap_closed(
    trials: Sequence[TrialResult],
    asked: Mapping[str, Sequence[TrialResult]],
    known: Sequence[ItemOutcome],
) -> float | None:
    """On the items that the arm and all experts were judged on."""
    mine = {trial.item_id for trial in trials if trial.score is not None}
    shared = [item for item in _judged(asked) if item.item_id in mine]
    rows = baselines(shared, known)
    if not rows:
        return None
    names = {item.item_id for item in shared}
    scores: dict[str, list[float]] = {}
    for trial in trials:
        if trial.item_id in names and trial.score is not None:
            scores.setdefault(trial.item_id, []).append(trial.score)
    oracle = next(row for row in rows if row.name.startswith(ORACLE))
    fixed = next(row for row in rows if row.name == "best fixed")
    score = fmean(fmean(each) for each in scores.values())
    return gap_closed(score, fixed.score.mean, oracle.score.mean)


def _judged(asked: Mapping[str, Sequence[TrialResult]]) -> list[ItemOutcome]:
    trials = [trial for each in asked.values() for trial in each]
    return outcomes(trials, list(asked))
