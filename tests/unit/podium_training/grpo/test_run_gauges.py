"""A run's metrics page says that it moves and where to, before the first step already."""

import subprocess
import sys
from pathlib import Path

from podium_kit.embedded.ports import free_port

# OpenTelemetry's providers can be set once per process.
PROGRAM = """
import sys, urllib.request
from pathlib import Path
from podium_kit import telemetry
from podium_training.grpo.metrics.log import MetricsLog

port, folder = int(sys.argv[1]), Path(sys.argv[2])

def show():
    page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    shown = [line for line in page.splitlines() if line.startswith("podium_training_")]
    print(*shown, "", sep="\\n")

shutdown = telemetry.configure("training", telemetry.TelemetrySettings(metrics_port=port))
log = MetricsLog(folder)
show()
log.write(1, {"applied": 1.0, "drift_mean": 0.25})
log.write(2, {"applied": 0.0, "drift_mean": 0.75})
show()
shutdown()
"""


def test_the_page_of_a_run_shows_what_alerts_ask_for(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", PROGRAM, str(free_port()), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=250)
    before, after = (_values(page) for page in done.stdout.strip().split("\n\n"))
    assert before["podium_training_skipped_steps_total"] == 0
    assert before["podium_training_step_age_seconds"] > 0
    assert "podium_training_drift" not in before
    assert after["podium_training_skipped_steps_total"] == 1
    assert after["podium_training_drift"] == 0.75


def _values(page: str) -> dict[str, float]:
    """Value by name; the labels name the library alone."""
    lines = [line.rpartition(" ") for line in page.splitlines()]
    return {name.split("{")[0]: float(value) for name, _, value in lines}
