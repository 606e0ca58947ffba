import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from bench.figures import Figures
from bench.orchestrators.arms import TRAINED, Arm
from bench.orchestrators.choosers import CHOOSERS_HEADER, chooser_row, choosers
from bench.orchestrators.comparison import HEADER, Line, Measure, change, cost, gain, lines
from bench.orchestrators.journal import Journal, Results
from bench.orchestrators.study import Study, weights_of
from podium_training.gate import Evaluated
from podium_training.tasks.task import Task
from tool_registry.models import Preferences

COST_SHARE_MAX = 0.4
# Of findings that say how much more reward the trained one earned than another.
REWARD_OVER = "reward_over."


def _latency_s(episode: Evaluated) -> float:
    return episode.latency_s


# What a weight moves: a name, where it weighs more, where less, what changes, and which way.
MOVES: tuple[tuple[str, str, str, Measure | None, int], ...] = (
    ("cost", "bench-cost", "bench-accuracy", cost, -1),
    ("latency", "bench-speed", "bench-accuracy", _latency_s, -1),
    # Calls of what the first of the two policies gives a weight of its own.
    ("liked", "bench-liked", "bench-balanced", None, 1),
)


@dataclass(frozen=True)
class Report:
    rows: list[str]
    """Of a Markdown table, without its header."""
    findings: dict[str, Any]
    """Verdicts and differences by name."""


def show(
    study: Study, arms: Sequence[Arm], journal: Journal, figures: Figures, tasks: Sequence[Task]
) -> None:
    found = report(study, arms, journal)
    rules = chooser_rows(study, arms, journal, tasks)
    rows = (HEADER, *found.rows, "", CHOOSERS_HEADER, *rules)
    sys.stdout.write("".join(f"{row}\n" for row in rows))
    for name, finding in found.findings.items():
        figures.note(name, finding)


def chooser_rows(
    study: Study, arms: Sequence[Arm], journal: Journal, tasks: Sequence[Task]
) -> list[str]:
    """A Markdown row for each policy and rule of choosing, without the header."""
    experts = [arm.name for arm in arms if arm.expert]
    return [
        chooser_row(policy, row)
        for policy in study.specs()
        for row in choosers(journal.results(experts, policy), experts, tasks)
    ]


def report(study: Study, arms: Sequence[Arm], journal: Journal) -> Report:
    names = [arm.name for arm in arms]
    experts = [arm.name for arm in arms if arm.expert]
    policies = [arm.name for arm in arms if not arm.expert and arm.name != TRAINED]
    found = Report([], {})
    for policy, spec in study.specs().items():
        results = journal.results(names, policy)
        if not any(results.values()):
            continue
        weights = weights_of(spec)
        rows = lines(policy, weights, results, experts[0])
        found.rows.extend(row.row() for row in rows)
        found.findings[f"{policy}.tasks"] = len(next(iter(results.values())))
        if TRAINED in results:
            asked = [row for row in rows if row.arm in experts]
            best = max(asked, key=lambda row: row.reward.mean).arm if asked else ""
            others = [each for each in (*policies, best) if each in results]
            for other in others:
                better = gain(weights, results, TRAINED, other)
                found.findings[f"{policy}.{REWARD_OVER}{other}"] = vars(better)
            verdict = _verdict(weights, results, rows, asked, others)
            found.findings[f"{policy}.verdict"] = verdict
    return replace(found, findings=found.findings | _moves(study, journal))


def _moves(study: Study, journal: Journal) -> dict[str, Any]:
    """Returns whether more weight moved the trained one the right way."""
    found: dict[str, Any] = {}
    for name, more, less, known, sign in MOVES:
        with_more, with_less = (journal.results([TRAINED], policy) for policy in (more, less))
        if with_more and with_less:
            measure = known or _calls_of(next(iter(study.specs()[more].preferences.tools)))
            moved = change(with_more[TRAINED], with_less[TRAINED], measure)
            obeys = moved.lower > 0 if sign > 0 else moved.upper < 0
            found[f"weight_of.{name}"] = vars(moved) | {"obeyed": obeys}
    return found


def _calls_of(tool: str) -> Measure:
    return lambda episode: float(episode.calls.get(tool, 0))


def _verdict(
    weights: Preferences,
    results: Results,
    rows: Sequence[Line],
    experts: Sequence[Line],
    others: Sequence[str],
) -> str:
    """Whether the trained one surely earns more, and is as often right at a fraction of the cost.

    As often, and of the cost, as the expert that is right most often: whom it saves. The one that
    earns most is under some policies wrong in half, for nearly nothing.
    """
    lost = [each for each in others if gain(weights, results, TRAINED, each).lower <= 0]
    cost_of = {row.arm: row.cost.mean for row in rows}
    found = [f"not surely above {each}" for each in lost]
    if experts:
        finest = max(experts, key=lambda row: row.outcome.mean).arm
        share = cost_of[TRAINED] / cost_of[finest]
        found += [f"costs {share:.0%} of {finest}"] if share > COST_SHARE_MAX else []
        worse = fmean(
            (theirs.score or 0) - (ours.score or 0)
            for ours, theirs in zip(results[TRAINED], results[finest], strict=True)
        )
        found += [f"right {worse:.0%} less often than {finest}"] if worse > 0 else []
    return "; ".join(found) or "wins"
