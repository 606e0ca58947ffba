"""Debian's promtool: parses rules and runs their unit tests."""

import re
import shutil
import subprocess
from pathlib import Path

import yaml

from chart.rendering import ROOT, Json, of_kind, rendered

CASES = ROOT / "tests/prometheus/cases"
DURATION = re.compile(r"(\d+)([smh])")
UNITS = {"s": 1, "m": 60, "h": 3600}
ASKED_AT = "25m"


def program(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is missing: apt-get install prometheus"
    return found


def groups() -> list[Json]:
    found: list[Json] = of_kind(rendered("production"), "PrometheusRule")[0]["spec"]["groups"]
    return found


def alerts() -> dict[str, Json]:
    return {rule["alert"]: rule for group in groups() for rule in group["rules"]}


def cases() -> dict[str, Json]:
    files = [yaml.safe_load(path.read_text()) for path in sorted(CASES.glob("*.yaml"))]
    return {alert: case for file in files for alert, case in file.items()}


def run(*arguments: str) -> None:
    """Runs promtool; its own words are the failure."""
    done = subprocess.run(
        [program("promtool"), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def check_rules(found: list[Json], folder: Path) -> Path:
    file = folder / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": found}))
    run("check", "rules", str(file))
    return file


def unit_test(alert: str, rule: Json, case: Json, fires: bool) -> Json:
    """One of promtool's tests: samples a minute apart, and the alerts that they cause."""
    expected = {
        "exp_labels": rule["labels"] | case.get("labels", {}),
        "exp_annotations": rule["annotations"] | {"summary": case.get("summary")},
    }
    asked = {
        "eval_time": case.get("at", ASKED_AT),
        "alertname": alert,
        "exp_alerts": [expected] if fires else [],
    }
    series = [
        {"series": name.replace("-N", f"-{copy}"), "values": values}
        for name, values in case["series"].items()
        for copy in range(case.get("copies", 1))
    ]
    return {"name": alert, "interval": "1m", "input_series": series, "alert_rule_test": [asked]}


def seconds(duration: str) -> int:
    return sum(int(count) * UNITS[unit] for count, unit in DURATION.findall(duration))
