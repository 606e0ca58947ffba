from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.orchestrators.arms import START, Arm
from bench.orchestrators.choosers import CHOOSERS_HEADER
from bench.orchestrators.comparison import HEADER
from bench.orchestrators.journal import Journal
from bench.orchestrators.report import REWARD_OVER, chooser_rows, report
from bench.orchestrators.study import Study
from podium_training.tasks.task import Task

FOLDER = Path("docs/studies")
PAGE = """\
# {title}

{unseen}

Measured on {day} by `PYTHONPATH=tests python -m bench.orchestrators --study {name}
--count {count} --seed {seed}{others}`:
the bundled policy `{policy}` (trained){begun}, and each expert asked about every task, on {count}
held-out tasks of {families} families, {withheld:.0%} of them without the tools of their solution.
Brackets hold 95 % intervals over tasks. Cost is the ledger's; latency counts what experts state,
which is added and not waited for. Adherence and reward are the paper's.

{table}

## Rules that everybody has

Each chooses one of the experts for a task and pays for its episode. What a rule learns, it learns
on other tasks than it is scored on.

{rules}

## What follows

{findings}
"""


def write_page(
    name: str,
    study: Study,
    arms: Sequence[Arm],
    journal: Journal,
    asked: Mapping[str, Any],
    tasks: Sequence[Task],
) -> None:
    """Replaces the page of an earlier run."""
    found = report(study, arms, journal)
    text = PAGE.format(
        title=study.title,
        unseen=study.unseen.strip(),
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        name=name,
        count=asked["count"],
        seed=asked["seed"],
        others="".join(_option(name, folder) for name, folder in asked["others"].items()),
        policy=asked["version"],
        begun=", what its training began with (its start)" if START in asked["others"] else "",
        families=len(asked["family"]),
        withheld=asked["withhold"],
        table="\n".join((HEADER, *found.rows)),
        rules="\n".join((CHOOSERS_HEADER, *chooser_rows(study, arms, journal, tasks))),
        findings="\n".join(_items(found.findings)),
    )
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.md").write_text(text, encoding="utf-8")


def _option(name: str, folder: str) -> str:
    version = Path(folder).name
    return f" --start {version}" if name == START else f" --control {name}={version}"


def _items(findings: Mapping[str, Any]) -> list[str]:
    found = []
    for name, finding in findings.items():
        policy, _, what = name.partition(".")
        if what == "verdict":
            begins = f"{policy}.{REWARD_OVER}"
            gains = [
                f"{_interval(gain)} over {other.removeprefix(begins)}"
                for other, gain in findings.items()
                if other.startswith(begins)
            ]
            found.append(f"* Under {policy}: {finding}. Reward: {', '.join(gains)}.")
        elif policy == "weight_of":
            obeyed = "obeyed" if finding["obeyed"] else "not surely obeyed"
            found.append(f"* The weight of {what} is {obeyed}: a change of {_interval(finding)}.")
    return found


def _interval(found: Mapping[str, float]) -> str:
    return f"{found['mean']:+.3g} [{found['lower']:+.3g}, {found['upper']:+.3g}]"
