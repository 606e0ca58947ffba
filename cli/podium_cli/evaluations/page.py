"""The report of a run, one HTML page without anything outside of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from jinja2 import Environment, FileSystemLoader
from matplotlib.figure import Figure

from podium.episodes.v1 import episode_service_pb2, trajectory_pb2
from podium_cli.demo.report import GRID, MODEL, RIGHT, STYLE, TOOLS, svg
from podium_cli.evaluations.runs import paid, state_of
from podium_cli.formats import format_seconds
from podium_evaluation.results.agreement import agreements
from podium_evaluation.results.baselines import ItemOutcome, baselines, outcomes
from podium_evaluation.results.choices import arm_choices
from podium_evaluation.results.comparison import key_of
from podium_evaluation.results.failures import MEANINGS, FailureClass, failure_class
from podium_evaluation.results.figures import ArmFigures, arm_figures, pair_figures
from podium_evaluation.results.sweeps import Curve, arm_curve, limits_of, rule_curves
from podium_evaluation.results.trials import Results, TrialResult
from podium_evaluation.statistics.fronts import Point, hull
from podium_evaluation.statistics.intervals import Ratio
from podium_kit.client.gateway import Gateway, segment
from podium_kit.client.rejections import Rejected
from podium_kit.models.rules import ALWAYS
from podium_training.gate import Interval

# Trajectories are read one by one: of more failures the classes are those of the first so many.
FAILURES_READ_MAX = 500
SHOWN_MAX = 20
TEMPLATE = "report.html.j2"


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


def write_page(path: Path, results: Results, failures: Sequence[Failure], console_url: str) -> None:
    by_arm = {arm: results.of(arm) for arm in results.arms}
    arms = [arm_figures(arm, trials) for arm, trials in by_arm.items()]
    items = _choosable(results)
    kinds = {
        arm: Counter(failure.kind for failure in failures if failure.trial.arm == arm)
        for arm in by_arm
    }
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True
    )
    environment.filters |= {
        "share": _share,
        "usd": _usd,
        "ratio": _ratio,
        "seconds": format_seconds,
        "points": _points,
        "number": _number,
        "paid": paid,
    }
    page = environment.get_template(TEMPLATE).render(
        evaluation=results.evaluation,
        state=state_of(results.evaluation),
        arms=arms,
        progress=results.progress,
        pairs=pair_figures(by_arm),
        choices=arm_choices(by_arm, _experts(results)),
        baselines=baselines(items),
        curves=_curves(by_arm, items),
        agreements=agreements(results.trials, results.verdicts),
        plots=_plots(arms),
        families=_families(by_arm),
        meanings=MEANINGS,
        kinds=kinds,
        failures=worst(failures)[:SHOWN_MAX],
        read=len(failures),
        key=key_of(results.evaluation),
        items=len({trial.item_id for trial in results.trials}),
        console_url=console_url,
    )
    path.write_text(page, encoding="utf-8")


def _choosable(results: Results) -> list[ItemOutcome]:
    """The items as experts play them, of which rules choose one; as all arms do without experts."""
    experts = list(_experts(results))
    among = experts if len(experts) > 1 else results.arms
    return outcomes([trial for trial in results.trials if trial.arm in among], among)


def _experts(results: Results) -> dict[str, str]:
    """By arm, what is called by one that always asks one model."""
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


def _families(by_arm: Mapping[str, Sequence[TrialResult]]) -> dict[str, dict[str, str]]:
    """Solved of judged trials, by family and arm."""
    found: dict[str, dict[str, str]] = {}
    for arm, trials in by_arm.items():
        for family in dict.fromkeys(trial.family for trial in trials):
            scores = [t.score for t in trials if t.family == family and t.score is not None]
            found.setdefault(family, {})[arm] = f"{sum(scores):g} / {len(scores)}"
    return dict(sorted(found.items()))


def _plots(arms: Sequence[ArmFigures]) -> list[tuple[str, str]]:
    known = [arm for arm in arms if arm.accuracy is not None]
    if not known:
        return []
    with mpl.rc_context(STYLE):
        plots = [("Accuracy, 95 %", _accuracies(known))]
        priced = [arm for arm in known if arm.cost is not None]
        if priced:
            plots.append(("Cost against accuracy", _front(priced)))
    return plots


def _accuracies(arms: Sequence[ArmFigures]) -> str:
    rows = list(reversed(arms))
    figure = Figure(figsize=(6.6, 1.1 + 0.4 * len(rows)), layout="constrained")
    axes = figure.subplots()
    axes.grid(axis="x", color=GRID)
    for place, arm in enumerate(rows):
        found = arm.accuracy or Interval(0, 0, 0)
        axes.plot([found.lower, found.upper], [place, place], color=MODEL, linewidth=2)
        axes.plot([found.mean], [place], "o", color=RIGHT)
    axes.set_yticks(range(len(rows)), [arm.arm for arm in rows])
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    return svg(figure, axes)


def _front(arms: Sequence[ArmFigures]) -> str:
    figure = Figure(figsize=(6.6, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.grid(color=GRID)
    points = [Point(a.arm, a.cost.mean, a.accuracy.mean) for a in arms if a.cost and a.accuracy]
    corners = hull(points)
    axes.plot([each.cost for each in corners], [each.score for each in corners], color=TOOLS)
    for point in points:
        axes.plot([point.cost], [point.score], "o", color=MODEL)
        axes.annotate(
            point.name,
            (point.cost, point.score),
            xytext=(5, 5),
            textcoords="offset points",
        )
    axes.set_xlabel("mean cost of a trial, USD")
    axes.set_ylabel("accuracy")
    axes.set_ylim(0, 1.05)
    axes.margins(x=0.2)
    return svg(figure, axes)


def _share(found: Interval | None) -> str:
    if found is None:
        return "unknown"
    return f"{found.mean:.3f} [{found.lower:.3f}, {found.upper:.3f}]"


def _points(found: Interval) -> str:
    low, high = found.lower * 100, found.upper * 100
    return f"{found.mean * 100:+.1f} [{low:+.1f}, {high:+.1f}]"


def _number(found: float | None) -> str:
    return "" if found is None else f"{found:.2f}"


def _usd(found: Interval | float | None) -> str:
    if found is None:
        return "unknown"
    if isinstance(found, float):
        return f"{found:.6f}"
    return f"{found.mean:.6f} [{found.lower:.6f}, {found.upper:.6f}]"


def _ratio(found: Ratio | None, form: str = ".6f") -> str:
    if found is None:
        return "unknown"
    bounds = [
        format(each, form) if each is not None else "?" for each in (found.lower, found.upper)
    ]
    return f"{format(found.value, form)} [{', '.join(bounds)}]"
