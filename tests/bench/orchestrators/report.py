import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from bench.figures import Figures
from bench.orchestrators.arms import START, TRAINED, Arm, Course
from bench.orchestrators.journal import Journal, Results
from bench.orchestrators.study import Study, weights_of
from podium_evaluation.results.baselines import (
    LEARNERS,
    PER_FAMILY,
    Baseline,
    Choice,
    ItemOutcome,
    baselines,
    learnt,
    outcomes,
)
from podium_evaluation.results.choices import arm_choices
from podium_evaluation.results.figures import arm_figures
from podium_evaluation.results.preferences import (
    PreferenceFigures,
    preference_figures,
    reward_gain,
)
from podium_evaluation.results.sweeps import Curve, arm_curve, limits_of, rule_curves
from podium_evaluation.results.trials import TrialResult
from podium_evaluation.statistics.intervals import mean_interval
from podium_kit.models.rules import ALWAYS
from podium_training.gate import Interval
from podium_training.tasks.task import Split, Task
from podium_training.tasks.taskset import generate
from tool_registry.models import Preferences

Measure = Callable[[TrialResult], float]

COST_SHARE_MAX = 0.4
# From which the rules learn.
KNOWN_TASKS = 480
# Of findings that state how much more reward the trained one earned than another.
REWARD_OVER = "reward_over."
# What follows from the tasks alone, whatever the vector, is shown under this one.
PLAIN = "bench-balanced"


def cost(trial: TrialResult) -> float:
    """US dollars. Raises ValueError where a call had no price."""
    if trial.cost is None:
        raise ValueError(f"{trial.item_id}: a call had no price")
    return float(trial.cost)


def _latency_s(trial: TrialResult) -> float:
    return trial.latency_s


# What a weight moves: a name, where it weighs more, where less, what changes, and which way.
MOVES: tuple[tuple[str, str, str, Measure | None, int], ...] = (
    ("cost", "bench-cost", "bench-accuracy", cost, -1),
    ("latency", "bench-speed", "bench-accuracy", _latency_s, -1),
    # Calls of what the first of the two policies gives a weight of its own.
    ("liked", "bench-liked", "bench-balanced", None, 1),
)


@dataclass(frozen=True)
class Comparison:
    """The arms of a study on the tasks of its courses, as far as they have been played."""

    study: Study
    arms: Sequence[Arm]
    courses: Sequence[Course]
    journal: Journal

    @property
    def tasks(self) -> list[Task]:
        return [task for course in self.courses for task in course.tasks]

    @property
    def controls(self) -> list[str]:
        """Returns the versions beside the trained one and its start, in the order given."""
        return [
            arm.name
            for arm in self.arms
            if arm.model_dir and not arm.policies and arm.name != START
        ]

    @property
    def experts(self) -> dict[str, str]:
        """Returns by arm the model that it always asks."""
        return {arm.name: arm.rule.removeprefix(ALWAYS) for arm in self.arms if arm.is_expert}

    def results(self, policy: str, *, whole: bool = True) -> Results:
        """The arms that play every vector; or the others, on the tasks that these have done."""
        names = [arm.name for arm in self.arms if bool(arm.policies) is not whole]
        return self.journal.results(names, policy, self.tasks)


@dataclass
class Report:
    rows: dict[str, list[str]] = field(default_factory=dict)
    """Rows of Markdown tables, by the tables' headers."""
    findings: dict[str, Any] = field(default_factory=dict)
    """Verdicts and differences by name."""

    def add(self, header: str, *cells: str) -> None:
        self.rows.setdefault(header, []).append(f"| {' | '.join(cells)} |")

    def table(self, header: str) -> str:
        line = "|".join("---" for _ in header.split("|")[1:-1])
        return "\n".join((header, f"|{line}|", *self.rows.get(header, ())))


ARMS = (
    "| Policy | Orchestrator | Outcome | Cost, USD | Own tokens, USD | Latency, s | Adherence"
    " | Reward |"
)
CHOICES = (
    "| Policy | Orchestrator | Gap closed | Calls a task | Most called | Evenness"
    " | Over-escalation |"
)
RULES = (
    "| Rule over the experts | Outcome | Cost, USD | Most chosen | Evenness | Over-escalation"
    " | Gap closed |"
)
SEEDS = "| Orchestrator | Outcome, by seed | Cost, USD, by seed |"
CONTROLS = (
    "| Policy | Version | Right | Cost, USD | Latency, s | Calls of what is preferred | Reward |"
)
CURVE = "| | " + " | ".join(f"limit {number}" for number in range(1, 8)) + " |"


def show(comparison: Comparison, figures: Figures) -> None:
    found = report(comparison)
    tables = [found.table(header) for header in (ARMS, CHOICES, RULES, SEEDS, CURVE, CONTROLS)]
    sys.stdout.write("\n\n".join(tables) + "\n")
    for name, finding in found.findings.items():
        figures.note(name, finding)


def report(comparison: Comparison) -> Report:
    found = Report()
    experts = comparison.experts
    for policy, spec in comparison.study.specs().items():
        results = comparison.results(policy)
        if not any(results.values()):
            continue
        weights = weights_of(spec)
        earned = preference_figures(weights, results, next(iter(results)))
        _add_arms(found, policy, results, earned, comparison)
        _add_untrained(found, policy, comparison, weights)
        found.findings[f"{policy}.tasks"] = len(next(iter(results.values())))
        if TRAINED in results:
            _add_verdict(found, policy, results, weights, earned, experts)
    _add_rules(found, comparison)
    _add_seeds(found, comparison)
    _add_moves(found, comparison)
    for name in comparison.controls[1:]:
        _add_control(found, comparison, name)
    return found


def _add_arms(
    found: Report,
    policy: str,
    results: Results,
    earned: Mapping[str, PreferenceFigures],
    comparison: Comparison,
    only: Sequence[str] = (),
) -> None:
    items = _expert_items(comparison)
    known = _known(comparison, items) if items else ()
    for choice in arm_choices(results, comparison.experts, known):
        if only and choice.arm not in only:
            continue
        trials = results[choice.arm]
        figures = arm_figures(choice.arm, trials)
        own = earned[choice.arm]
        found.add(
            ARMS,
            policy,
            choice.arm,
            _interval(figures.accuracy, ".2f"),
            _interval(figures.cost, ".6f"),
            _interval(choice.orchestrator_cost, ".6f"),
            _interval(mean_interval([[each.latency_s] for each in trials]), ".1f"),
            _interval(own.adherence, ".2f"),
            _interval(own.reward, ".2f"),
        )
        found.add(
            CHOICES,
            policy,
            choice.arm,
            _number(choice.gap_closed),
            f"{sum(choice.calls.values()):.2f}",
            _number(choice.top_share),
            _number(choice.evenness),
            _number(choice.over_escalation),
        )


def _add_untrained(
    found: Report, policy: str, comparison: Comparison, weights: Preferences
) -> None:
    """Adds the arms that play few vectors; no other arm's reward is relative to theirs."""
    others = comparison.results(policy, whole=False)
    for arm, trials in others.items():
        done = {trial.item_id for trial in trials}
        usual = comparison.results(policy)
        group = {
            name: [each for each in found_trials if each.item_id in done]
            for name, found_trials in {**usual, arm: trials}.items()
        }
        if done and usual:
            earned = preference_figures(weights, group, next(iter(group)))
            _add_arms(found, policy, group, earned, comparison, [arm])


def _add_verdict(
    found: Report,
    policy: str,
    results: Results,
    weights: Preferences,
    earned: Mapping[str, PreferenceFigures],
    experts: Mapping[str, str],
) -> None:
    asked = [arm for arm in results if arm in experts]
    best = max(asked, key=lambda arm: earned[arm].reward.mean) if asked else ""
    others = [each for each in results if each not in experts and each != TRAINED]
    gains = {
        other: reward_gain(weights, results, TRAINED, other)
        for other in [*others, *filter(None, [best])]
    }
    for other, gain in gains.items():
        found.findings[f"{policy}.{REWARD_OVER}{other}"] = vars(gain)
    lost = [other for other, gain in gains.items() if gain.lower <= 0]
    found.findings[f"{policy}.verdict"] = _verdict(results, lost, asked)


def _verdict(results: Results, lost: Sequence[str], experts: Sequence[str]) -> str:
    """States whether the trained one surely earns more than others, and is as often right at a
    fraction of the cost: as often, and of the cost, as the expert that is right most often, which
    it saves.
    """
    found = [f"not surely above {each}" for each in lost]
    if experts:
        mean = {arm: _mean(results[arm], _score) for arm in (*experts, TRAINED)}
        finest = max(experts, key=lambda arm: mean[arm])
        share = _mean(results[TRAINED], cost) / _mean(results[finest], cost)
        found += [f"costs {share:.0%} of {finest}"] if share > COST_SHARE_MAX else []
        worse = mean[finest] - mean[TRAINED]
        found += [f"right {worse:.0%} less often than {finest}"] if worse > 0 else []
    return "; ".join(found) or "wins"


def _score(trial: TrialResult) -> float:
    return trial.score or 0.0


def _mean(trials: Sequence[TrialResult], measure: Measure) -> float:
    return fmean(map(measure, trials))


def _expert_items(comparison: Comparison) -> list[ItemOutcome]:
    """The experts' own calls and costs, which depend on no vector."""
    experts = list(comparison.experts)
    found = comparison.journal.results(experts, PLAIN, comparison.tasks)
    return outcomes([trial for trials in found.values() for trial in trials], experts)


def _known(comparison: Comparison, items: Sequence[ItemOutcome]) -> list[ItemOutcome]:
    """Tasks of training, on which the experts are right as their pool states.

    A call costs what it does in the items of the family.
    """
    pool, seed = comparison.study.pool, comparison.courses[0].seed
    known = {f"{pool.tool}/{expert.alias}": expert for expert in pool.experts}
    families = {item.family for item in items}
    cost_of = {
        (family, arm): fmean(item.arms[arm].cost for item in items if item.family == family)
        for family in families
        for arm in comparison.experts
    }
    return [
        ItemOutcome(
            task.id,
            task.family,
            task.question,
            {
                arm: Choice(float(known[name].is_right(task, seed)), cost_of[task.family, arm])
                for arm, name in comparison.experts.items()
            },
        )
        for task in generate(KNOWN_TASKS, Split.TRAIN, seed, sorted(families))
    ]


def rules(comparison: Comparison) -> list[Baseline]:
    items = _expert_items(comparison)
    return baselines(items, _known(comparison, items) if items else ())


def over_table(comparison: Comparison, policy: str) -> Interval:
    """The trained policy's outcome less that of the table of the best expert of each family."""
    items = {item.item_id: item for item in _expert_items(comparison)}
    known = _known(comparison, list(items.values()))
    choose = learnt(list(items.values()), LEARNERS[PER_FAMILY], known)
    trials = comparison.results(policy)[TRAINED]
    return mean_interval(
        [
            [_score(trial) - item.arms[choose(item)].score]
            for trial in trials
            if (item := items.get(trial.item_id))
        ]
    )


def _add_rules(found: Report, comparison: Comparison) -> None:
    for row in rules(comparison):
        found.add(
            RULES,
            row.name,
            _interval(row.score, ".2f"),
            f"{row.cost:.6f}",
            _number(row.top_share),
            _number(row.evenness),
            _number(row.over_escalation),
            _number(row.gap_closed),
        )
    items = _expert_items(comparison)
    if len(items) < 4:
        return
    limits = limits_of(items)
    found.add(CURVE, "USD a task", *(f"{limit:.6f}" for limit in limits))
    whole = comparison.results(PLAIN)
    arms = [arm_curve(arm, trials, limits) for arm, trials in whole.items()]
    for curve in [*filter(None, arms), *rule_curves(items, limits, _known(comparison, items))]:
        found.add(CURVE, curve.name, *_curve(curve))


def _curve(curve: Curve) -> list[str]:
    return [f"{_interval(each.score, '.2f')} for {each.spent:.6f}" for each in curve.points]


def _add_seeds(found: Report, comparison: Comparison) -> None:
    """Adds means over all vectors that an arm plays, for each seed."""
    policies = list(comparison.study.specs())
    for arm in comparison.arms:
        scores, costs = [], []
        for course in comparison.courses:
            trials = [
                trial
                for policy in policies
                for each in comparison.journal.results([arm.name], policy, course.tasks).values()
                for trial in each
            ]
            if trials:
                scores.append(f"{_mean(trials, _score):.2f}")
                costs.append(f"{_mean(trials, cost):.6f}")
        if scores:
            found.add(SEEDS, arm.name, ", ".join(scores), ", ".join(costs))


def _add_moves(found: Report, comparison: Comparison) -> None:
    """Adds whether more weight moved the trained one the right way."""
    for name, more, less, known, sign in MOVES:
        after, before = (
            comparison.journal.results([TRAINED], policy, comparison.tasks).get(TRAINED, [])
            for policy in (more, less)
        )
        specs = comparison.study.specs()
        measure = known or _calls_of(next(iter(specs[more].preferences.tools)))
        others = {each.item_id: measure(each) for each in before}
        changes = [
            [measure(each) - others[each.item_id]] for each in after if each.item_id in others
        ]
        if changes:
            moved = mean_interval(changes)
            obeys = moved.lower > 0 if sign > 0 else moved.upper < 0
            found.findings[f"weight_of.{name}"] = vars(moved) | {"obeyed": obeys}


def _add_control(found: Report, comparison: Comparison, name: str) -> None:
    """Adds the differences of a control from the first, task by task, by vector and over all."""
    first, specs = comparison.controls[0], comparison.study.specs()
    preferred = next(tool for spec in specs.values() for tool in spec.preferences.tools)
    measures = {
        "right": _score,
        "cost": cost,
        "latency": _latency_s,
        "preferred": _calls_of(preferred),
    }
    by_task: dict[str, dict[str, list[float]]] = {what: {} for what in measures}
    for policy, spec in specs.items():
        results = comparison.results(policy)
        if not (results.get(first) and results.get(name)):
            return
        shown = []
        for what, measure in measures.items():
            changes = _changes(results[first], results[name], measure)
            for task, change in changes.items():
                by_task[what].setdefault(task, []).append(change)
            shown.append(mean_interval([[change] for change in changes.values()]))
        gain = reward_gain(weights_of(spec), results, name, first)
        _add_differences(found, policy, name, [*shown, gain])
    whole = {what: mean_interval(list(tasks.values())) for what, tasks in by_task.items()}
    _add_differences(found, "all", name, [*whole.values(), None])
    found.findings |= {f"control.{name}.{what}": vars(each) for what, each in whole.items()}


def _changes(
    before: Sequence[TrialResult], after: Sequence[TrialResult], measure: Measure
) -> dict[str, float]:
    """Returns by task what a measure rises from one arm to another."""
    known = {each.item_id: measure(each) for each in before}
    return {each.item_id: measure(each) - known[each.item_id] for each in after}


def _add_differences(
    found: Report, policy: str, name: str, shown: Sequence[Interval | None]
) -> None:
    forms = ("+.2f", "+.6f", "+.1f", "+.2f", "+.2f")
    cells = [
        "" if each is None else _interval(each, form)
        for each, form in zip(shown, forms, strict=True)
    ]
    found.add(CONTROLS, policy, name, *cells)


def _calls_of(tool: str) -> Measure:
    return lambda trial: float(trial.calls.get(tool, 0))


def _interval(found: Interval | None, form: str) -> str:
    if found is None:
        return "unknown"
    return f"{found.mean:{form}} [{found.lower:{form}}, {found.upper:{form}}]"


def _number(found: float | None) -> str:
    return "" if found is None else f"{found:.2f}"
