"""The report on an evaluation: totals, and never what was asked or answered."""

import statistics
from collections.abc import Sequence
from datetime import date

from podium_cli.demo.solving import Outcome, accuracy, accuracy_by_kind
from podium_cli.formats import format_seconds


def row(release: str, commit: str, day: date, outcomes: Sequence[Outcome]) -> str:
    total = accuracy("all", outcomes)
    kinds = ", ".join(
        f"{each.kind} {each.right}/{each.total}" for each in accuracy_by_kind(outcomes)
    )
    models = ", ".join(sorted({outcome.model for outcome in outcomes} - {""}))
    cells = (
        release,
        commit,
        day.isoformat(),
        models,
        f"{total.right} of {total.total}",
        f"{total.share:.0%}",
        format_seconds(statistics.median(outcome.seconds for outcome in outcomes)),
        kinds,
    )
    return f"| {' | '.join(cells)} |"


def is_logged(release: str, readme: str) -> bool:
    """Returns whether the table has a row of this release."""
    return any(line.startswith(f"| {release} |") for line in readme.splitlines())
