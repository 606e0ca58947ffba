"""Experiment trackers that get a run's metrics beside its files: Weights & Biases and MLflow.

The files are the record: a tracker that is away delays no step and fails no run.
"""

import importlib.util
import logging
import queue
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from podium_training.grpo.config import InvalidConfig, MlflowConfig, RunConfig, WandbConfig

log = logging.getLogger(__name__)

# Steps that wait for a tracker; the newer are left out beyond.
WAITING_MAX = 1_000
RETRY_S = 5.0
# What the end of a run waits for what was not sent yet.
END_S = 30.0
# Metrics that MLflow accepts at once; a step with more would be repeated forever.
BATCH_MAX = 1_000
RUN_TAG = "podium.run"
# Statuses of requests that no repetition makes right; a credential or a run may come back.
REJECTED = (400, 413, 422)

Metrics = Mapping[str, float]


class StepRejected(Exception):
    """The answer of a tracker that will never take a step; the message is its reason."""


class Tracker(Protocol):
    """Its run there begins with the first step, since it may be away before."""

    def log(self, step: int, metrics: Metrics) -> None:
        """Raises StepRejected, and whatever else of a tracker that is away."""

    def end(self) -> None: ...


class Sending:
    """Sends steps to a tracker from a thread; repeats what fails and skips what is rejected."""

    def __init__(self, name: str, tracker: Tracker) -> None:
        self._name = name
        self._tracker = tracker
        self._steps: queue.Queue[tuple[int, Metrics] | None] = queue.Queue(WAITING_MAX)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._send, name=name, daemon=True)
        self._thread.start()

    def log(self, step: int, metrics: Metrics) -> None:
        try:
            self._steps.put_nowait((step, metrics))
        except queue.Full:
            log.warning("%s is away: step %d is in the run's files alone", self._name, step)

    def end(self) -> None:
        self._ends.set()
        # A tracker that hangs may have left no room.
        with suppress(queue.Full):
            self._steps.put(None, timeout=END_S)
        self._thread.join(END_S)
        if self._thread.is_alive():
            log.warning("%s does not answer: its last steps are in the files alone", self._name)

    def _send(self) -> None:
        while (waiting := self._steps.get()) is not None:
            while not self._is_over(*waiting):
                if self._ends.wait(RETRY_S):
                    return
        self._tracker.end()

    def _is_over(self, step: int, metrics: Metrics) -> bool:
        """Returns whether the next step follows."""
        try:
            self._tracker.log(step, metrics)
        except StepRejected as error:
            log.warning("%s rejects step %d, left in the run's files: %s", self._name, step, error)
        except Exception:  # BLE001: whatever a tracker raises fails no run
            log.warning("%s got no step %d", self._name, step, exc_info=True)
            return False
        return True


class WandbTracker:
    def __init__(self, config: WandbConfig, run: RunConfig) -> None:
        _require("wandb", "wandb")
        self._config = config
        self._trained = run
        self._run: Any = None

    def log(self, step: int, metrics: Metrics) -> None:
        self._run = self._run or self._started()
        try:
            self._run.log(dict(metrics), step=step)
        except (TypeError, ValueError) as error:
            raise StepRejected(str(error)) from error

    def end(self) -> None:
        if self._run is not None:
            import wandb  # noqa: PLC0415

            self._run.finish()
            wandb.teardown()

    def _started(self) -> Any:
        import wandb  # noqa: PLC0415

        config, run = self._config, self._trained
        # Neither the command's output nor the code of its folder is sent.
        settings = wandb.Settings(console="off", disable_git=True, disable_code=True, silent=True)
        return wandb.init(
            project=config.project,
            entity=config.entity,
            mode=config.mode,
            id=_id_of(run).hex,
            resume="allow",
            name=_name_of(run),
            dir=str(run.output),
            config=_settings_of(run),
            settings=settings,
        )


class MlflowTracker:
    def __init__(self, config: MlflowConfig, run: RunConfig) -> None:
        _require("mlflow", "mlflow-skinny")
        from mlflow import MlflowClient  # noqa: PLC0415
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        try:
            self._client = MlflowClient(tracking_uri=config.tracking_uri)
        except MlflowException as error:
            raise InvalidConfig(f"trackers.mlflow: {error.message}") from error
        self._experiment = config.experiment
        self._trained = run
        self._run_id = ""

    def log(self, step: int, metrics: Metrics) -> None:
        from mlflow.entities import Metric  # noqa: PLC0415
        from mlflow.exceptions import MlflowException  # noqa: PLC0415

        self._run_id = self._run_id or self._found() or self._made()
        now = round(time.time() * 1000)
        values = [Metric(name, value, now, step) for name, value in metrics.items()]
        try:
            for start in range(0, len(values), BATCH_MAX):
                self._client.log_batch(self._run_id, metrics=values[start : start + BATCH_MAX])
        except MlflowException as error:
            if error.get_http_status_code() in REJECTED:  # type: ignore[no-untyped-call]
                raise StepRejected(error.message) from error
            raise

    def end(self) -> None:
        if self._run_id:
            self._client.set_terminated(self._run_id)

    def _found(self) -> str:
        experiment = self._client.get_experiment_by_name(self._experiment)
        if experiment is None:
            return ""
        wanted = f"tags.`{RUN_TAG}` = '{_id_of(self._trained)}'"
        runs = self._client.search_runs([experiment.experiment_id], wanted, max_results=1)
        return str(runs[0].info.run_id) if runs else ""

    def _made(self) -> str:
        from mlflow.entities import Param  # noqa: PLC0415

        experiment = self._client.get_experiment_by_name(self._experiment)
        kept = experiment.experiment_id if experiment is not None else None
        made = self._client.create_run(
            kept or self._client.create_experiment(self._experiment),
            run_name=_name_of(self._trained),
            tags={RUN_TAG: str(_id_of(self._trained))},
        )
        settings = _settings_of(self._trained)
        params = [Param(name, str(value)) for name, value in settings.items()]
        self._client.log_batch(made.info.run_id, params=params)
        return str(made.info.run_id)


def trackers_of(run: RunConfig) -> Sequence[Sending]:
    """Raises InvalidConfig where the library of one is not installed."""
    wanted = run.trackers
    found = []
    if wanted.wandb is not None:
        found.append(Sending("Weights & Biases", WandbTracker(wanted.wandb, run)))
    if wanted.mlflow is not None:
        found.append(Sending("MLflow", MlflowTracker(wanted.mlflow, run)))
    return found


def _require(module: str, package: str) -> None:
    if importlib.util.find_spec(module) is None:
        cause = f"trackers.{module}: {package} is not installed"
        raise InvalidConfig(f"{cause}; install the extra: pip install 'podium[trackers]'")


def _id_of(run: RunConfig) -> uuid.UUID:
    """The same after a restart, so that the tracker's run is continued."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"{Path(run.output).absolute()}\n{_name_of(run)}")


def _name_of(run: RunConfig) -> str:
    return run.publish.run if run.publish else Path(run.output).absolute().name


def _settings_of(run: RunConfig) -> dict[str, Any]:
    """The sections that decide what is learnt, as `section.field`; no address and no password."""
    sections = {"groups": run.groups, "step": run.step, "lora": run.lora}
    return {
        f"{section}.{name}": value
        for section, fields in sections.items()
        if fields is not None
        for name, value in fields.model_dump(mode="json").items()
    } | {"steps": run.steps, "model": Path(run.model).name}
