"""What is generated is current, and what is linked exists."""

import subprocess
import sys
from itertools import pairwise

from chart.rendering import CHARTS, ROOT, SWITCHES, chart


def test_schema_and_tables_are_generated_from_the_values() -> None:
    command = [sys.executable, "scripts/chart_docs.py", "--check"]
    command += ["charts/podium", "charts/podium-tenant", "charts/podium-crds"]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr


def test_every_switch_is_tried() -> None:
    assert set(SWITCHES) == set(chart().values["integrations"])


def test_every_key_has_a_comment() -> None:
    for name in ("podium", "podium-tenant", "podium-crds"):
        lines = (CHARTS / name / "values.yaml").read_text().splitlines()
        for before, line in pairwise(lines):
            if line and line[0].isalpha():
                assert before.startswith("#"), f"{name}: {line} has no comment"
