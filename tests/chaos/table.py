from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaos.invariants import Verdict
from chaos.pairs import Round

COLUMNS = (
    "victim",
    "fault",
    "accepted",
    "finished",
    "failed",
    "lost",
    "charged twice",
    "not on stream",
    "unknown",
    "other",
    "recovered after",
)


@dataclass(frozen=True)
class Outcome:
    round: Round
    verdict: Verdict | None
    recovery_s: float = 0.0
    not_possible: str = ""

    @property
    def is_bad(self) -> bool:
        return self.verdict is not None and bool(self.verdict.violations)


def table(outcomes: Sequence[Outcome]) -> str:
    rows = [COLUMNS, ("---",) * len(COLUMNS), *map(_row, outcomes)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(outcome: Outcome) -> tuple[str, ...]:
    one, seen = outcome.round, outcome.verdict
    if seen is None:
        return (one.victim, one.fault, f"not possible: {outcome.not_possible}", *[""] * 8)
    counts = (
        seen.accepted,
        seen.finished,
        seen.failed,
        seen.lost,
        seen.charged_twice,
        seen.missing_on_stream,
        seen.unknown_effects,
        _others(seen),
    )
    return (one.victim, one.fault, *map(str, counts), f"{outcome.recovery_s:.1f} s")


def _others(seen: Verdict) -> int:
    named = seen.failed + seen.lost + seen.charged_twice + seen.missing_on_stream
    return len(seen.violations) - named


def left_out_lines(left_out: Mapping[Round, str]) -> str:
    by_reason: dict[tuple[str, str], list[str]] = {}
    for one, reason in left_out.items():
        by_reason.setdefault((one.fault, reason), []).append(one.victim)
    return "\n".join(
        f"no {fault} of {', '.join(names)}: {reason}"
        for (fault, reason), names in by_reason.items()
    )
