"""The report of a run: a document that the console's page and the file of a report both show."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from podium.episodes.v1 import episode_service_pb2, trajectory_pb2
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium_cli.evaluations.runs import paid, state_of
from podium_evaluation.results.agreement import (
    agreements,
    all_agree,
    disagreements,
    judge_figures,
    verdicts_by_judge,
)
from podium_evaluation.results.baselines import ItemOutcome, baselines, outcomes
from podium_evaluation.results.calibrations import calibration_of
from podium_evaluation.results.choices import arm_choices
from podium_evaluation.results.comparison import key_of
from podium_evaluation.results.failures import MEANINGS, FailureClass, failure_class
from podium_evaluation.results.figures import arm_figures, pair_figures
from podium_evaluation.results.sweeps import Curve, arm_curve, limits_of, rule_curves
from podium_evaluation.results.trials import Results, TrialResult
from podium_evaluation.runs.judges import PROMPT_DIGEST
from podium_evaluation.statistics.fronts import Point, hull
from podium_evaluation.suites.suite import CONVERSATION_SCAFFOLD
from podium_kit.client.gateway import Gateway, segment
from podium_kit.client.rejections import Rejected
from podium_kit.models.rules import ALWAYS
from podium_kit.text import one_line

# Trajectories are read one by one: of more failures the classes are those of the first so many.
FAILURES_READ_MAX = 500
SHOWN_MAX = 20
TEXT_MAX = 300


@dataclass(frozen=True)
class Failure:
    trial: TrialResult
    kind: FailureClass
    answer: str
    calls: Sequence[str]
    """Each call of a tool, with the beginning of its result."""


async def read_failures(gateway: Gateway, results: Results) -> list[Failure]:
    """The failed trials whose episodes are still there. Raises Rejected, Unreachable."""
    wrong = [trial for trial in results.trials if trial.score is not None and trial.score < 1]
    found = []
    for trial in wrong[:FAILURES_READ_MAX]:
        path = f"/v1/episodes/{segment(trial.episode_id)}/trajectory"
        try:
            reply = await gateway.get(path, episode_service_pb2.GetTrajectoryResponse)
        except Rejected as error:
            if error.temporary:
                raise
            continue  # retention deleted it, or the caller may not read it
        found.append(_failure(trial, reply.trajectory))
    return found


def _failure(trial: TrialResult, trajectory: trajectory_pb2.Trajectory) -> Failure:
    calls = [
        f"{call.observation.call.tool_name}({call.observation.call.arguments_json}) "
        f"-> {_result(call)}"
        for turn in trajectory.turns
        for call in turn.tool_invocations
    ]
    return Failure(trial, failure_class(trial, trajectory), trajectory.answer, calls)


def _result(call: trajectory_pb2.ToolInvocation) -> str:
    if call.observation.HasField("failure"):
        return f"failed: {call.observation.failure.message}"[:200]
    return call.observation.content[:200]


def report_of(results: Results, failures: Sequence[Failure], console_url: str) -> dict[str, Any]:
    """The document of a run, as console/src/reports/documents.ts declares it."""
    by_arm = {arm: results.of(arm) for arm in results.arms}
    items = _choosable(results)
    return {
        "kind": "evaluation",
        "id": results.evaluation.id,
        "suite": results.evaluation.suite,
        "state": state_of(results.evaluation),
        "items": len({trial.item_id for trial in results.trials}),
        "repeats": results.evaluation.repeats or 1,
        "console_url": console_url,
        "arms": _arms(results, by_arm),
        "pairs": list(map(asdict, pair_figures(by_arm))),
        "choices": list(map(asdict, arm_choices(by_arm, _experts(results)))),
        **_judges(results),
        "baselines": list(map(asdict, baselines(items))),
        "curves": list(map(asdict, _curves(by_arm, items))),
        "families": _families(by_arm),
        "failures": [
            {"kind": kind, "meaning": meaning, "counts": _counts(failures, kind)}
            for kind, meaning in MEANINGS.items()
        ],
        "read": len(failures),
        "worst": [_shown(failure) for failure in worst(failures)[:SHOWN_MAX]],
        "comparability": key_of(results.evaluation),
    }


def _judges(results: Results) -> dict[str, Any]:
    """Returns the verdicts of the run's judges, and how far they agree."""
    judges = verdicts_by_judge(results.trials, results.verdicts)
    figures = judge_figures(judges, results.trials, results.verdicts)
    differing = disagreements(judges, results.trials)
    together = all_agree(judges)
    return {
        "judges": [
            {
                **asdict(each),
                "cost": None if each.cost is None else f"{each.cost:f}",
                "calibration": _calibration(results, each.judge),
            }
            for each in figures
        ],
        "agreements": list(map(asdict, agreements(judges))),
        "all_agree": together and asdict(together),
        "disagreeing": len(differing),
        "disagreements": list(map(asdict, differing[:SHOWN_MAX])),
    }


def _calibration(results: Results, judge: str) -> dict[str, Any] | None:
    """The newest calibration of the judge, asked as it was in the run."""
    key = results.evaluation.comparability_key
    if key.get("scaffold") == CONVERSATION_SCAFFOLD:
        return None  # the environment words its questions
    found = calibration_of(judge, results.calibrations, PROMPT_DIGEST, key)
    return asdict(found) if found else None


def without_content(report: Mapping[str, Any]) -> dict[str, Any]:
    """The document without what only trajectories have: answers, and results of calls."""
    kept = [
        {name: value for name, value in trial.items() if name not in {"answer", "calls"}}
        for trial in report["worst"]
    ]
    return {**report, "worst": kept}


def _arms(results: Results, by_arm: Mapping[str, Sequence[TrialResult]]) -> list[dict[str, object]]:
    figures = [arm_figures(arm, trials) for arm, trials in by_arm.items()]
    points = [Point(a.arm, a.cost.mean, a.accuracy.mean) for a in figures if a.cost and a.accuracy]
    corners = {point.name for point in hull(points)}
    progress = {arm.arm: arm for arm in results.progress}
    specs = {arm.name: str(arm) for arm in results.evaluation.arms}
    return [
        {
            **asdict(arm),
            "on_front": arm.arm in corners,
            "paid": _paid(progress.get(arm.arm, pb.ArmProgress())),
            "spec": specs[arm.arm],
        }
        for arm in figures
    ]


def _paid(arm: pb.ArmProgress) -> dict[str, str]:
    return {
        "agents": paid(arm.cost),
        "users": paid(arm.simulator_cost),
        "checks": paid(arm.judge_cost),
    }


def _counts(failures: Sequence[Failure], kind: FailureClass) -> dict[str, int]:
    return dict(Counter(failure.trial.arm for failure in failures if failure.kind == kind))


def _shown(failure: Failure) -> dict[str, object]:
    trial = failure.trial
    return {
        "item_id": trial.item_id,
        "question": one_line(trial.question, TEXT_MAX),
        "arm": trial.arm,
        "episode_id": trial.episode_id,
        "kind": failure.kind,
        "explanation": one_line(trial.explanation, TEXT_MAX),
        "answer": one_line(failure.answer, TEXT_MAX),
        "calls": list(failure.calls),
    }


def _choosable(results: Results) -> list[ItemOutcome]:
    """The items as experts play them, of which rules choose one; as all arms do without experts."""
    experts = list(_experts(results))
    among = experts if len(experts) > 1 else results.arms
    return outcomes([trial for trial in results.trials if trial.arm in among], among)


def _experts(results: Results) -> dict[str, str]:
    """Returns by arm the model that it always asks."""
    return {
        arm.name: arm.model.removeprefix(ALWAYS)
        for arm in results.evaluation.arms
        if arm.model.startswith(ALWAYS)
    }


def _curves(
    by_arm: Mapping[str, Sequence[TrialResult]], items: Sequence[ItemOutcome]
) -> list[Curve]:
    """Curves of arms and of rules that choose one, under budgets; a single arm suggests none."""
    if not items or len(items[0].arms) < 2:
        return []
    limits = limits_of(items)
    arms = [arm_curve(arm, trials, limits) for arm, trials in by_arm.items()]
    return [*filter(None, arms), *rule_curves(items, limits)]


def worst(failures: Sequence[Failure]) -> list[Failure]:
    """Items that most trials failed come first, then those of a lower score."""
    counts = Counter(failure.trial.item_id for failure in failures)
    return sorted(failures, key=lambda each: (-counts[each.trial.item_id], each.trial.score or 0.0))


def _families(
    by_arm: Mapping[str, Sequence[TrialResult]],
) -> dict[str, dict[str, dict[str, float]]]:
    """Solved of judged trials, by family and arm."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for arm, trials in by_arm.items():
        for family in dict.fromkeys(trial.family for trial in trials):
            scores = [t.score for t in trials if t.family == family and t.score is not None]
            found.setdefault(family, {})[arm] = {"solved": sum(scores), "count": len(scores)}
    return dict(sorted(found.items()))
