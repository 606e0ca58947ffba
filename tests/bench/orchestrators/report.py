"""The table of what has been measured so far, and what it says of the trained orchestrator."""

import sys
from collections.abc import Sequence
from statistics import fmean

from bench.figures import Figures
from bench.orchestrators.arms import START, TRAINED, Arm
from bench.orchestrators.comparison import HEADER, Line, Measure, change, cost, gain, lines
from bench.orchestrators.journal import Journal, Results
from bench.orchestrators.vectors import read_policies, weights_of
from podium_training.gate import Evaluated

COST_SHARE_MAX = 0.4


def _librarian_calls(episode: Evaluated) -> float:
    return float(episode.calls.get("ask_expert/librarian", 0))


def _latency_s(episode: Evaluated) -> float:
    return episode.latency_s


# What a weight moves: a name, where it weighs more, where less, what changes, and which way.
MOVES: tuple[tuple[str, str, str, Measure, int], ...] = (
    ("cost", "bench-cost", "bench-accuracy", cost, -1),
    ("latency", "bench-speed", "bench-accuracy", _latency_s, -1),
    ("librarian", "bench-librarian", "bench-balanced", _librarian_calls, 1),
)


def show(arms: Sequence[Arm], journal: Journal, figures: Figures) -> None:
    """Prints a row for every arm that has begun, and a verdict under every policy."""
    names = [arm.name for arm in arms]
    experts = [arm.name for arm in arms if arm.expert]
    sys.stdout.write(f"{HEADER}\n")
    for policy, spec in read_policies().items():
        results = journal.results(names, policy)
        if not any(results.values()):
            continue
        weights = weights_of(spec)
        rows = lines(policy, weights, results, experts[0])
        for row in rows:
            sys.stdout.write(f"{row.row()}\n")
        figures.note(f"{policy}.tasks", len(next(iter(results.values()))))
        if TRAINED in results:
            best = _best(rows, experts)
            others = [each for each in (START, best) if each in results]
            for other in others:
                better = gain(weights, results, TRAINED, other)
                figures.note(f"{policy}.reward_over.{other}", vars(better))
            figures.note(f"{policy}.verdict", _verdict(results, rows, others, policy, best))
    for name, more, less, measure, sign in MOVES:
        with_more, with_less = (journal.results([TRAINED], policy) for policy in (more, less))
        if with_more and with_less:
            moved = change(with_more[TRAINED], with_less[TRAINED], measure)
            obeys = moved.lower > 0 if sign > 0 else moved.upper < 0
            figures.note(f"weight_of.{name}", vars(moved) | {"obeyed": obeys})


def _best(rows: Sequence[Line], experts: Sequence[str]) -> str:
    asked = [row for row in rows if row.arm in experts]
    return max(asked, key=lambda row: row.reward.mean).arm if asked else ""


def _verdict(
    results: Results, rows: Sequence[Line], others: Sequence[str], policy: str, best: str
) -> str:
    """Whether the trained one surely earns more, at no worse outcome and a fraction of the cost."""
    weights = weights_of(read_policies()[policy])
    lost = [each for each in others if gain(weights, results, TRAINED, each).lower <= 0]
    by_arm = {row.arm: row for row in rows}
    found = [f"not surely above {each}" for each in lost]
    if best:
        share = by_arm[TRAINED].cost.mean / by_arm[best].cost.mean
        found += [f"costs {share:.0%} of {best}"] if share > COST_SHARE_MAX else []
        worse = fmean(
            (theirs.score or 0) - (ours.score or 0)
            for ours, theirs in zip(results[TRAINED], results[best], strict=True)
        )
        found += [f"right {worse:.0%} less often than {best}"] if worse > 0 else []
    return "; ".join(found) or "wins"
