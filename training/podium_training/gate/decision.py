"""The decision whether a candidate is promoted, with every number behind it.

A growing evaluation may be looked at several times: every look pays its share of the
allowed error, so an early answer is as good as a late one.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pydantic import ConfigDict, ValidationError

from podium_kit.policy_versions.decisions import Decided, Verdict, decision_file
from podium_kit.policy_versions.writing import replace_text
from podium_training.gate.bootstrap import Interval, paired_interval
from podium_training.gate.evaluation import Evaluated, Pair
from podium_training.gate.rules import (
    GateRules,
    Objective,
    broken_limits,
    format_validity,
    gains,
    judged,
    latency_p95_s,
    mean_cost,
    too_many_unjudged,
    tool_error_rate,
)


class UnplannedLook(ValueError):
    """A look more than the rules pay for."""


class Decision(Decided):
    """A look at an evaluation. Money as decimal text; bounds at the look's confidence."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    look: int
    pairs: int
    seed: int
    rules: GateRules
    bounds: dict[str, dict[str, float]]
    """Mean gain with its lower and upper bound: of the score and of the objective."""
    figures: dict[str, dict[str, str | float | None]]
    """Cost, latency, format and tool errors of both."""


def decide(
    candidate: str,
    promoted: str,
    pairs: Sequence[Pair],
    rules: GateRules,
    *,
    look: int = 1,
    seed: int = 0,
) -> Decision:
    """The verdict of look number `look`, counted from 1. Raises UnplannedLook."""
    if not 1 <= look <= rules.looks:
        raise UnplannedLook(f"look {look} was not planned: the rules say {rules.looks} in all")
    names = dict.fromkeys((Objective.SCORE, rules.objective))
    found = {name: gains(pairs, name) for name in names}
    bounds = {
        name: paired_interval(values, rules.look_confidence, seed)
        for name, values in found.items()
        if values
    }
    verdict, reasons = _verdict(pairs, bounds, rules, look)
    if stranger := _stranger(candidate, promoted, pairs):
        verdict, reasons = Verdict.KEEP, [stranger]
    return Decision(
        candidate=candidate,
        promoted=promoted,
        verdict=verdict,
        reasons=tuple(reasons),
        look=look,
        pairs=len(pairs),
        seed=seed,
        rules=rules,
        bounds={name: asdict(interval) for name, interval in bounds.items()},
        figures={
            "candidate": _figures([one for one, _ in pairs]),
            "promoted": _figures([other for _, other in pairs]),
        },
    )


def _verdict(
    pairs: Sequence[Pair],
    bounds: dict[Objective, Interval],
    rules: GateRules,
    look: int,
) -> tuple[Verdict, list[str]]:
    last = look == rules.looks
    tasks = len({one.task_id for one, _ in judged(pairs)})
    if tasks < rules.pairs_min:
        words = f"pairs of {tasks} tasks, of at least {rules.pairs_min}"
        return (Verdict.KEEP if last else Verdict.CONTINUE), [words]
    score, objective = bounds[Objective.SCORE], bounds.get(rules.objective)
    if objective is None:
        return Verdict.KEEP, [f"{rules.objective} is unknown for some episodes"]
    faults = broken_limits([one for one, _ in pairs], rules)
    # Pairs without both verdicts are left out: were they many, the rest might be the easy ones.
    if unjudged := too_many_unjudged([other for _, other in pairs], rules):
        faults.append(f"promoted policy: {unjudged}")
    if not score.lower > -rules.delta:
        faults.append(f"score may be {-score.lower:.3g} worse, at most {rules.delta:g}")
    if not objective.lower > 0:
        faults.append(f"{rules.objective} is not shown to be better: {objective.lower:.3g}")
    if not faults:
        return Verdict.PROMOTE, []
    hopeless = score.upper < -rules.delta or objective.upper < 0
    return (Verdict.KEEP if last or hopeless else Verdict.CONTINUE), faults


def _stranger(candidate: str, promoted: str, pairs: Sequence[Pair]) -> str | None:
    for name, episodes in ((candidate, [a for a, _ in pairs]), (promoted, [b for _, b in pairs])):
        strangers = {version for each in episodes for version in each.model_versions} - {name}
        if name and strangers:
            return f"{min(strangers)} answered where {name} should have"
    return None


def _figures(episodes: Sequence[Evaluated]) -> dict[str, str | float | None]:
    if not episodes:
        return {}
    cost = mean_cost(episodes)
    return {
        "mean_cost": None if cost is None else f"{cost:f}",
        "latency_p95_s": latency_p95_s(episodes),
        "format_validity": format_validity(episodes),
        "tool_error_rate": tool_error_rate(episodes),
    }


def write_decision(root: Path, decision: Decision) -> Path:
    path = decision_file(root, decision.candidate)
    replace_text(path, decision.model_dump_json(indent=1))
    return path


def read_decision(root: Path, candidate: str) -> Decision | None:
    try:
        text = decision_file(root, candidate).read_text(encoding="utf-8")
        return Decision.model_validate_json(text)
    except (FileNotFoundError, ValidationError):
        return None
