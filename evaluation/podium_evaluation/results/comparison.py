"""Two runs of one suite, and the gate that the second has to pass."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium_evaluation.results.figures import PairFigures, pair_figures
from podium_evaluation.results.trials import Results
from podium_kit.client.errors import UsageError

# Every condition is one-sided at 95 %: two-sided intervals have half of the error on each side.
GATE_CONFIDENCE = 0.9
CONDITION = re.compile(
    r"(?P<figure>accuracy|cost|latency)\s*(?P<sign>>=|<=)\s*(?P<value>[-+]?\d+(\.\d+)?)(?P<unit>pp|x)"
)


class Figure(StrEnum):
    ACCURACY = "accuracy"
    COST = "cost"
    LATENCY = "latency"


@dataclass(frozen=True)
class Condition:
    """`accuracy >= -1pp`, in points of the difference, or `cost <= 0.8x`, a ratio."""

    figure: Figure
    limit: float

    def __str__(self) -> str:
        if self.figure is Figure.ACCURACY:
            return f"accuracy >= {self.limit * 100:+g}pp"
        return f"{self.figure} <= {self.limit:g}x"

    def fault(self, pair: PairFigures) -> str:
        """Returns why the pair does not pass, at 95 %, one-sided; "" where it does."""
        if self.figure is Figure.ACCURACY:
            lower = pair.accuracy.lower
            known = f"it may be {lower * 100:+.1f}pp"
            return "" if lower >= self.limit else f"{self}: {known}"
        ratio = pair.cost_ratio if self.figure is Figure.COST else pair.latency_ratio
        if ratio is None or ratio.upper is None:
            return f"{self}: it is unknown"
        return "" if ratio.upper <= self.limit else f"{self}: it may be {ratio.upper:.2f}x"


def parse_gate(text: str) -> list[Condition]:
    """Conditions separated by commas. Raises UsageError."""
    found = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        match = CONDITION.fullmatch(part)
        if match is None or not _fits(match):
            fix = "write it like 'accuracy >= -1pp, cost <= 0.8x, latency <= 1.2x'"
            raise UsageError(f"{part!r} is no condition of a gate", fix)
        value = float(match["value"])
        figure = Figure(match["figure"])
        found.append(Condition(figure, value / 100 if figure is Figure.ACCURACY else value))
    return found


def _fits(match: re.Match[str]) -> bool:
    wanted = (">=", "pp") if match["figure"] == Figure.ACCURACY else ("<=", "x")
    return (match["sign"], match["unit"]) == wanted


@dataclass(frozen=True)
class Compared:
    pair: PairFigures
    faults: tuple[str, ...]


def compare(
    baseline: Results,
    candidate: Results,
    arms: Sequence[tuple[str, str]],
    gate: Sequence[Condition],
) -> list[Compared]:
    """The candidate's arms against the baseline's, in pairs; by default those of one name.

    Raises UsageError where keys differ.
    """
    check_comparable(baseline.evaluation, candidate.evaluation)
    found = []
    for ours, theirs in arms or _same_names(baseline, candidate):
        sides = {"A": baseline.of(ours), "B": candidate.of(theirs)}
        pairs = pair_figures(sides, GATE_CONFIDENCE if gate else 0.95)
        if not pairs:
            cause = f"{ours} and {theirs} have no item that both were judged on"
            raise UsageError(cause, "wait for the runs, or see `podium eval report`")
        [pair] = pairs
        named = PairFigures(**{**vars(pair), "first": ours, "second": theirs})
        faults = tuple(fault for each in gate if (fault := each.fault(named)))
        found.append(Compared(named, faults))
    return found


def _same_names(baseline: Results, candidate: Results) -> list[tuple[str, str]]:
    if len(baseline.arms) == len(candidate.arms) == 1:
        return [(baseline.arms[0], candidate.arms[0])]
    shared = [(arm, arm) for arm in baseline.arms if arm in candidate.arms]
    if not shared:
        raise UsageError(
            f"no arm has one name in both: {', '.join(baseline.arms)}; {', '.join(candidate.arms)}",
            "name them, like RUN/ARM",
        )
    return shared


def key_of(evaluation: pb.Evaluation) -> dict[str, str]:
    return {**evaluation.comparability_key, "items": evaluation.suite_digest}


def check_comparable(first: pb.Evaluation, second: pb.Evaluation) -> None:
    if differing := differences(key_of(first), key_of(second)):
        raise UsageError(
            f"the runs cannot be compared: {'; '.join(differing)}",
            "run both with the same suite, checks and limits",
        )


def differences(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    return [
        f"{name} is {_shown(first.get(name))} in one and {_shown(second.get(name))} in the other"
        for name in sorted(first.keys() | second.keys())
        if first.get(name) != second.get(name)
    ]


def _shown(value: str | None) -> str:
    if value is None:
        return "not stated"
    return f"{value[:12]}…" if re.fullmatch(r"[0-9a-f]{64}", value) else value
