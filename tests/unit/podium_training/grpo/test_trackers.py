"""A run's metrics in Weights & Biases and MLflow, by their own libraries."""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from podium_kit.embedded.ports import free_port
from podium_training.grpo.config import InvalidConfig, RunConfig
from podium_training.grpo.metrics.log import MetricsLog
from podium_training.grpo.metrics.trackers import trackers_of

HEAD_BYTES, BLOCK_BYTES, WHOLE_RECORD = 7, 32 * 1024, 1
METRICS = {"reward_mean": 0.5, "gradient_norm": 2.0, "calls ask_expert": 1.5, "lag": 3.0}
# By the names that TRL has for the same.
TRACKED = {"reward": 0.5, "grad_norm": 2.0, "calls/ask_expert": 1.5, "lag/lag": 3.0}


def run_with(folder: Path, **trackers: Any) -> RunConfig:
    output = folder / "output"
    output.mkdir(exist_ok=True)
    return RunConfig.model_validate(
        {
            "model": folder / "base",
            "output": output,
            "steps": 3,
            "stream": {"bootstrap": "127.0.0.1:1"},
            "trackers": trackers,
        }
    )


def train(run: RunConfig, steps: Sequence[int]) -> None:
    log = MetricsLog(run.output, trackers_of(run))
    for step in steps:
        log.write(step, METRICS)
    log.end()


def mlflow_client(tracking_uri: str) -> Any:
    # Here: every test process collects this module, and one of them runs it.
    from mlflow import MlflowClient  # noqa: PLC0415

    return MlflowClient(tracking_uri=tracking_uri)


@pytest.fixture
def tracking_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    # The store that needs neither a server nor SQL.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    return (tmp_path / "mlflow").as_uri()


def test_mlflow_gets_every_step_and_a_restart_continues_its_run(
    tmp_path: Path, tracking_uri: str
) -> None:
    run = run_with(tmp_path, mlflow={"tracking_uri": tracking_uri, "experiment": "routing"})
    train(run, [1, 2])
    train(run, [3])
    client = mlflow_client(tracking_uri)
    experiment = client.get_experiment_by_name("routing")
    assert experiment is not None
    [found] = client.search_runs([experiment.experiment_id])
    assert found.data.metrics == TRACKED
    assert found.info.status == "FINISHED"
    assert found.data.params["step.loss"] == "dapo"
    assert not [name for name in found.data.params if name.startswith("stream")]
    history = client.get_metric_history(found.info.run_id, "reward")
    assert [each.step for each in history] == [1, 2, 3]


def test_weights_and_biases_gets_every_step(tmp_path: Path) -> None:
    run = run_with(tmp_path, wandb={"project": "routing", "mode": "offline"})
    train(run, [1, 2])
    [file] = (run.output / "wandb").glob("offline-run-*/*.wandb")
    records = list(records_of(file))
    steps = [
        {item.key or item.nested_key[0]: item.value_json for item in record.history.item}
        for record in records
        if record.WhichOneof("record_type") == "history"
    ]
    assert [step["_step"] for step in steps] == ["1", "2"]
    assert {name: float(steps[0][name]) for name in TRACKED} == TRACKED
    [started] = [each.run for each in records if each.WhichOneof("record_type") == "run"]
    assert (started.project, started.display_name) == ("routing", "output")


def records_of(file: Path) -> Iterator[Any]:
    """LevelDB's log format behind a head of its own; records of less than a block."""
    from wandb.proto import wandb_internal_pb2 as wandb_pb  # noqa: PLC0415

    content, at = file.read_bytes(), HEAD_BYTES
    while at + HEAD_BYTES <= len(content):
        if BLOCK_BYTES - at % BLOCK_BYTES < HEAD_BYTES:
            at += BLOCK_BYTES - at % BLOCK_BYTES
        _, length, kind = struct.unpack_from("<IHB", content, at)
        assert kind == WHOLE_RECORD
        at += HEAD_BYTES + length
        yield wandb_pb.Record.FromString(  # type: ignore[attr-defined]
            content[at - length : at]
        )


def test_a_tracker_that_is_away_fails_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    run = run_with(tmp_path, mlflow={"tracking_uri": f"http://127.0.0.1:{free_port()}"})
    train(run, [1, 2])
    assert len((run.output / "metrics.jsonl").read_text().splitlines()) == 2
    assert "MLflow got no step 1" in caplog.text


def test_a_step_that_a_tracker_rejects_is_noted_and_the_next_one_is_sent(
    tmp_path: Path, tracking_uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    run = run_with(tmp_path, mlflow={"tracking_uri": tracking_uri, "experiment": "routing"})
    [sending] = trackers_of(run)
    sending.log(1, {"reward": 0.5})
    sending.log(2, {"no:name": 0.5, "../up": 1.0})
    sending.log(3, {"reward": 0.75})
    sending.end()
    client = mlflow_client(tracking_uri)
    experiment = client.get_experiment_by_name("routing")
    assert experiment is not None
    [found] = client.search_runs([experiment.experiment_id])
    history = client.get_metric_history(found.info.run_id, "reward")
    assert [(each.step, each.value) for each in history] == [(1, 0.5), (3, 0.75)]
    assert "MLflow rejects step 2" in caplog.text


def test_a_tracker_that_cannot_be_used_is_named_before_the_run(tmp_path: Path) -> None:
    run = run_with(tmp_path, mlflow={"tracking_uri": "gopher://nowhere"})
    with pytest.raises(InvalidConfig, match=r"trackers\.mlflow: .*gopher"):
        trackers_of(run)
