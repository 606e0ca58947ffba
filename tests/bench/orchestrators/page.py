import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.orchestrators.arms import COMPETENT, START, TRAINED
from bench.orchestrators.report import (
    ARMS,
    CHOICES,
    CONTROLS,
    CURVE,
    REWARD_OVER,
    RULES,
    SEEDS,
    Comparison,
    Report,
    over_table,
    report,
    rules,
)
from podium_evaluation.results.baselines import ORACLE, PER_FAMILY

FOLDER = Path("docs/studies")
# What the first sentence counts, by the beginnings of the arms' names.
RIVALS = {
    "the best single expert": "always ",
    "the rule that asks whichever is worth most": "rule: worth most",
    "the rule that also weighs what experts were right about": COMPETENT,
    "its start": START,
}
UNTRAINED = (
    ", the model that it was trained from with the same prompt and\ntools (prompt only), that"
    " model answering at once"
)
TEMPLATE = Path(__file__).with_name("page_template.md")


def write_page(name: str, comparison: Comparison, asked: Mapping[str, Any]) -> None:
    """Replaces the page of an earlier run."""
    study, found = comparison.study, report(comparison)
    text = TEMPLATE.read_text(encoding="utf-8").format(
        title=study.title,
        shown=f"{differences(comparison, found.findings)}{shown(comparison, found.findings)}",
        unseen=study.unseen.strip(),
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        name=name,
        count=asked["count"],
        seeds=" ".join(map(str, asked["seed"])),
        seed_count=len(asked["seed"]),
        others="".join(_option(name, folder) for name, folder in asked["others"].items()),
        policy=asked["version"],
        begun=", what its training began with, by imitation (its start)"
        if START in asked["others"]
        else "",
        untrained=UNTRAINED if study.untrained else "",
        group="; the untrained model is in no other row's group" if study.untrained else "",
        families=len(asked["family"]),
        withheld=asked["withhold"],
        arms=found.table(ARMS),
        choices=found.table(CHOICES),
        rules=found.table(RULES),
        curve=found.table(CURVE),
        by_seed=found.table(SEEDS),
        controls=controls(comparison, found),
        findings="\n".join(_items(found)),
    )
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.md").write_text(text, encoding="utf-8")


def shown(comparison: Comparison, findings: Mapping[str, Any]) -> str:
    """One sentence on what the study shows and what it does not."""
    policies = list(comparison.study.specs())
    trained = comparison.results(policies[0]).get(TRAINED)
    rows = {row.name.partition(":")[0]: row for row in rules(comparison)}
    if not (trained and rows):
        return "Nothing is shown yet: arms are missing."
    table, oracle = rows[PER_FAMILY], rows[ORACLE]
    wins = ", ".join(
        f"than {other} under {_won(policies, findings, rival)}" for other, rival in RIVALS.items()
    )
    gain = over_table(comparison, policies[0])
    surely = "surely more" if gain.lower > 0 else "not surely more"
    right = fmean(trial.score or 0.0 for trial in trained)
    paid = fmean(float(trial.cost or 0) for trial in trained)
    return (
        f"Of {len(policies)} vectors, the trained policy surely earns more reward {wins}; under"
        f" `{policies[0]}` it is right in {right:.2f} at ${paid:.5f} a task, its own tokens and"
        f" tools included, which is {surely} often ({_interval(vars(gain))}) than a plain table of"
        f" the best expert of each family ({table.score.mean:.2f} at ${table.cost:.5f}), and the"
        f" gap to the oracle ({oracle.score.mean:.2f} at ${oracle.cost:.5f}) is open; nothing is"
        " shown about real models, since experts are simulated, or about chance in training, of"
        " which one run is compared."
    )


def differences(comparison: Comparison, findings: Mapping[str, Any]) -> str:
    """States what the controls do differently from the first of them; empty with fewer than two."""
    found = [
        f"{name} costs {_interval(findings[f'control.{name}.cost'])} USD a task, is right"
        f" {_interval(findings[f'control.{name}.right'])} more often and calls the preferred model"
        f" {_interval(findings[f'control.{name}.preferred'])} times more"
        for name in comparison.controls[1:]
        if f"control.{name}.cost" in findings
    ]
    if not found:
        return ""
    return (
        f"Beside {comparison.controls[0]}, over all vectors: {'; '.join(found)}. Each is one run,"
        " so these differences hold chance in training as well.\n\n"
    )


def controls(comparison: Comparison, found: Report) -> str:
    """The section on versions that were made for this comparison, or nothing without two."""
    if len(comparison.controls) < 2:
        return ""
    return (
        f"## Controls beside {comparison.controls[0]}\n\n"
        "Differences task by task; reward by vector, relative to the group of all arms.\n\n"
        f"{found.table(CONTROLS)}\n\n"
    )


def _won(policies: Sequence[str], findings: Mapping[str, Any], rival: str) -> int:
    """Counts the vectors under which the trained policy surely earns more than such an arm."""
    begins = [f"{policy}.{REWARD_OVER}{rival}" for policy in policies]
    won = [name for name, found in findings.items() if REWARD_OVER in name and found["lower"] > 0]
    return sum(any(name.startswith(each) for name in won) for each in begins)


def _option(name: str, folder: str) -> str:
    version = Path(folder).name
    named = shlex.quote(f"{name}={version}")
    return f" --start {version}" if name == START else f" --control {named}"


def _items(report: Report) -> Sequence[str]:
    found = []
    for name, finding in report.findings.items():
        policy, _, what = name.partition(".")
        if what == "verdict":
            begins = f"{policy}.{REWARD_OVER}"
            gains = [
                f"{_interval(gain)} over {other.removeprefix(begins)}"
                for other, gain in report.findings.items()
                if other.startswith(begins)
            ]
            found.append(f"* Under {policy}: {finding}. Reward: {', '.join(gains)}.")
        elif policy == "weight_of":
            obeyed = "obeyed" if finding["obeyed"] else "not surely obeyed"
            found.append(f"* The weight of {what} is {obeyed}: a change of {_interval(finding)}.")
    return found


def _interval(found: Mapping[str, float]) -> str:
    return f"{found['mean']:+.3g} [{found['lower']:+.3g}, {found['upper']:+.3g}]"
