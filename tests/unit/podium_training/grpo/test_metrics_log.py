import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tensorboardX.proto.event_pb2 import Event, SessionLog

from podium_kit.embedded.ports import free_port
from podium_training.grpo.metrics.log import MetricsLog

CHECKSUM_BYTES = 4


def events_of(file: Path) -> Iterator[Event]:
    """TFRecord: length, checksum, event, checksum; a step's figures and what began the file."""
    content, at = file.read_bytes(), 0
    while at < len(content):
        (length,) = struct.unpack_from("<Q", content, at)
        at += 8 + CHECKSUM_BYTES
        yield Event.FromString(content[at : at + length])
        at += length + CHECKSUM_BYTES


def scalars_of(folder: Path) -> dict[str, float]:
    return {
        f"{value.tag}@{event.step}": value.simple_value
        for file in sorted((folder / "tensorboard").iterdir())
        for event in events_of(file)
        for value in event.summary.value
    }


def test_a_step_is_a_line_and_a_scalar_for_each_figure(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path)
    log.write(1, {"reward_mean": 0.25, "calls search": 2.0, "lag": 3.0})
    [line] = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line) == {"step": 1, "reward_mean": 0.25, "calls search": 2.0, "lag": 3.0}
    assert scalars_of(tmp_path) == pytest.approx(
        {"reward@1": 0.25, "calls/search@1": 2.0, "lag/lag@1": 3.0}
    )


def test_a_line_that_a_kill_tore_does_not_spoil_the_next(tmp_path: Path) -> None:
    MetricsLog(tmp_path).write(1, {"loss": 1.0})
    path = tmp_path / "metrics.jsonl"
    whole = path.read_text()
    for torn in (whole + whole[:9], whole[:9]):
        path.write_text(torn)
        MetricsLog(tmp_path).write(2, {"loss": 2.0})
        steps = [json.loads(line)["step"] for line in path.read_text().splitlines()]
        assert steps == ([1, 2] if torn.startswith(whole) else [2])


def test_a_run_that_goes_on_hides_the_steps_it_takes_again(tmp_path: Path) -> None:
    killed = MetricsLog(tmp_path)
    for step in (1, 2, 3):
        killed.write(step, {"loss": float(step)})
    MetricsLog(tmp_path).write(2, {"loss": 20.0})
    starts = [
        event.step
        for file in (tmp_path / "tensorboard").iterdir()
        for event in events_of(file)
        if event.session_log.status == SessionLog.START
    ]
    assert 2 in starts


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
