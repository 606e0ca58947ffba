from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pytest
import uuid_utils
import yaml
from typer.testing import CliRunner, Result

from builders.evaluations import evaluated
from builders.version_folders import write_version
from podium.registry.v1 import policy_pb2, policy_service_pb2
from podium_cli.app import app
from podium_cli.output import Output
from podium_cli.train.choosing import note_consent
from podium_cli.train.rounds import UNUSED_GROUPS_MAX, Pace, Rounds, planned, start_version
from podium_kit.client.errors import UsageError, UserError
from podium_kit.client.gateway import Gateway
from podium_kit.policy_versions import Alias, Aliases, Format, VersionStore
from podium_training.gate import Evaluated
from podium_training.grpo.config import RunConfig
from podium_training.grpo.metrics.progress import Progress, read_progress, write_progress
from podium_training.rollouts import Group, Offer, RolloutLimits
from podium_training.rollouts.rolling import Rolled
from podium_training.tasks.task import Split, Task

RUNNER = CliRunner()
RUN = {"model": "base", "output": "run", "steps": 3, "stream": {"bootstrap": "127.0.0.1:1"}}
PUBLISH = {"publish": {"store": "store", "run": "letters"}}


def make_tasks(count: int, split: Split = Split.TRAIN) -> list[Task]:
    return [
        Task(f"{split}-{n}", "letters", split, "Letter?", "exact", {"expected": "x"})
        for n in range(count)
    ]


def write_tasks(path: Path, tasks: list[Task]) -> str:
    path.write_text("".join(f"{task.to_json()}\n" for task in tasks))
    return str(path)


def test_progress_says_what_was_read(tmp_path: Path) -> None:
    assert read_progress(tmp_path) is None
    write_progress(tmp_path, Progress(1, 3, 2, 4, {0: 10, 1: 7}))
    found = read_progress(tmp_path)
    assert found == Progress(1, 3, 2, 4, {0: 10, 1: 7})
    assert found.has_read({0: 10, 1: 6})
    assert not found.has_read({0: 11, 1: 6})
    assert not found.has_read({2: 1}), "a partition that was added since"


def test_progress_that_was_lost_with_the_machine_is_none(tmp_path: Path) -> None:
    (tmp_path / "progress.json").write_bytes(b"\0\0")
    assert read_progress(tmp_path) is None


class Empty(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    do_POST = do_GET  # noqa: N815 the name that http.server calls

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_a_trained_run_without_a_version_is_not_said_to_be_promoted(tmp_path: Path) -> None:
    output, path = tmp_path / "run", tmp_path / "run.yaml"
    publish = {"store": str(tmp_path / "moved"), "run": "letters"}
    path.write_text(yaml.safe_dump({**RUN, "output": str(output), "publish": publish}))
    output.mkdir()
    write_progress(output, Progress(3, 3, 0, 4, {}))
    tasks = write_tasks(tmp_path / "tasks.jsonl", make_tasks(2))
    with ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        options = ["--task-file", tasks, "--policy", "p", "--url", url, "--api-key", "key"]
        ended = RUNNER.invoke(app, ["train", "improve", str(path), *options, "--json"])
        server.shutdown()
        thread.join()
    assert ended.exit_code == 1, ended.output
    assert f"{tmp_path / 'moved'} holds no version" in ended.stderr


@pytest.mark.parametrize(
    ("config", "options", "words"),
    [
        ({}, [], "section `publish`"),
        (PUBLISH, ["--promote"], "give --held-out"),
        ({**PUBLISH, "stepz": 3}, [], "stepz"),
    ],
    ids=["nowhere to publish", "nothing measured", "unknown key"],
)
def test_what_cannot_work_is_rejected_before_anything_runs(
    tmp_path: Path, config: dict[str, Any], options: list[str], words: str
) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({**RUN, **config}))
    tasks = write_tasks(tmp_path / "tasks.jsonl", make_tasks(2))
    rejected = RUNNER.invoke(app, ["train", "improve", str(path), "--task-file", tasks, *options])
    assert rejected.exit_code == 2
    assert words in rejected.stderr


def test_tasks_to_learn_from_and_to_measure_on_are_kept_apart(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(RUN | PUBLISH))
    learnt = write_tasks(tmp_path / "learn.jsonl", make_tasks(2))
    held_out = write_tasks(tmp_path / "held.jsonl", make_tasks(2, Split.HELD_OUT))

    def improve(task_file: str, measured: str) -> str:
        files = ["--task-file", task_file, "--held-out", measured]
        rejected = RUNNER.invoke(app, ["train", "improve", str(path), *files])
        assert rejected.exit_code == 2
        return rejected.stderr

    assert "keep them apart" in improve(learnt, learnt)
    assert "rejects held-out tasks" in improve(held_out, learnt)


def test_a_run_that_cannot_be_planned_is_wrong_usage() -> None:
    """Such as a tool that is withheld from what the platform chooses by itself."""
    offer = Offer(tools={"calculator": ["tool/calculator"]}, tools_max=0, withheld=0.5)
    with pytest.raises(UsageError, match="the platform chooses the tools"):
        planned(str(uuid_utils.uuid7()), make_tasks(1), 2, offer)


def test_the_first_round_is_played_by_what_the_run_starts_from(tmp_path: Path) -> None:
    store = VersionStore(tmp_path / "store")
    write_version(store, "policy-words-v7", Format.ADAPTER)

    def start(folder: Path | None) -> str:
        publish = {"store": store.root, "run": "letters"}
        config = {**RUN, "publish": publish, "lora": {"rank": 8, "start": folder}}
        return start_version(RunConfig.model_validate(config))

    assert start(store.root / "policy-words-v7") == "policy-words-v7"
    assert start(tmp_path / "policy-words-v7") == "", "no engine serves it"
    assert start(None) == ""


class Platform:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.played: list[str] = []
        self.posted: list[str] = []
        at = "podium_cli.train.improve"
        monkeypatch.setattr(f"{at}.note_consent", self._nothing)
        monkeypatch.setattr(f"{at}.known_tools", self._nothing)
        # Bound methods, so they are not given the Rounds or Gateway.
        monkeypatch.setattr(Rounds, "candidate", self._candidate)
        monkeypatch.setattr(Rounds, "measured", self._measured)
        monkeypatch.setattr(Gateway, "post", self._post)

    async def _nothing(self, *_: object) -> dict[str, list[str]]:
        return {}

    async def _candidate(self) -> str:
        return "policy-letters-v3"

    async def _measured(self, tasks: Sequence[Task], model: str) -> list[Evaluated]:
        self.played.append(model)
        name, score = (model, 1.0) if model else ("base", 0.5)
        return [evaluated(number, name, score) for number in range(len(tasks))]

    async def _post(self, path: str, *_: object) -> None:
        self.posted.append(path)


def test_what_was_decided_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, store = tmp_path / "run.yaml", tmp_path / "store"
    publish = {"publish": {"store": str(store), "run": "letters"}}
    path.write_text(yaml.safe_dump(RUN | publish | {"output": str(tmp_path)}))
    write_progress(tmp_path, Progress(3, 3, 0, 4, {}))
    files = [
        *("--task-file", write_tasks(tmp_path / "learn.jsonl", make_tasks(2))),
        *("--held-out", write_tasks(tmp_path / "held.jsonl", make_tasks(40, Split.HELD_OUT))),
    ]
    platform = Platform(monkeypatch)

    def improve(*options: str) -> Result:
        where = ["--url", "http://127.0.0.1:1", "--api-key", "key", "--json"]
        return RUNNER.invoke(app, ["train", "improve", str(path), *files, *where, *options])

    first, again = improve(), improve("--promote")
    assert (first.exit_code, again.exit_code) == (0, 0), first.output + again.output
    assert again.stdout == first.stdout
    assert platform.played == ["policy-letters-v3", ""]
    assert platform.posted == ["/v1/model-versions/policy-letters-v3/promote"]
    other = improve("--objective", "cost")
    assert other.exit_code == 2
    assert "--objective score" in other.stderr
    Aliases(store).move(Alias.PROMOTED, "policy-letters-v2")
    assert improve().exit_code == 1, "another than the promoted one answered"
    assert len(platform.played) == 4, "it was not compared with the one promoted now"


# Of a round.
GROUPS = 20


class Trainer:
    """Runs until it is stopped, or until a number of rounds were played."""

    running = True

    def start(self) -> None:
        """Nothing."""

    async def wait(self) -> int:
        return 0

    async def terminate(self) -> None:
        self.running = False


class Played(Rounds):
    trainer: Trainer
    uses_each: int
    rounds = 30
    temperature = 0.0
    wanted: Callable[[], bool]

    async def _model(self) -> str:
        return ""

    async def _roll(
        self,
        groups: Sequence[Group],
        run_id: str,
        limits: RolloutLimits,
        wanted: Callable[[], bool] = lambda: True,
    ) -> list[Rolled]:
        self.wanted, self.temperature = wanted, limits.temperature
        used = self.number // self.uses_each
        reasons = "2 unpriced (give every tool a price)"
        progress = Progress(0, 3, used, 9, {0: self.number}, 2, reasons)
        write_progress(self.config.output, progress)
        self.trainer.running = self.number < self.rounds
        return []

    def _ends(self) -> dict[int, int]:
        return {0: self.number}


async def played(output: Path, uses_each: int) -> Played:
    config = RunConfig.model_validate(RUN | PUBLISH | {"output": output})
    gateway, pace = cast(Any, None), Pace(groups=GROUPS, size=2, at_once=1, ahead=0)
    offer = Offer(tools={}, tools_max=0)
    limits = RolloutLimits(temperature=1.3)
    rounds = Played(gateway, config, offer, limits, pace, Output(True))
    rounds.trainer, rounds.uses_each = Trainer(), uses_each
    try:
        await rounds.play(make_tasks(2), cast(Any, rounds.trainer))
    finally:
        assert not rounds.trainer.running
    return rounds


async def test_rounds_end_when_the_trainer_can_use_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"last {UNUSED_GROUPS_MAX} groups: 2 unpriced"):
        await played(tmp_path, UNUSED_GROUPS_MAX // GROUPS + 2)


async def test_rounds_go_on_while_the_trainer_uses_some(tmp_path: Path) -> None:
    rounds = await played(tmp_path, UNUSED_GROUPS_MAX // GROUPS)
    assert rounds.number == Played.rounds
    assert not rounds.wanted(), "the trainer has ended: no further episode is paid for"


async def test_rounds_are_played_at_the_temperature_asked_for_and_measured_greedily(
    tmp_path: Path,
) -> None:
    rounds = await played(tmp_path, 1)
    assert rounds.temperature == 1.3
    await rounds.measured(make_tasks(1, Split.HELD_OUT), "policy-letters-v3")
    assert rounds.temperature == 0.0


class Policies:
    """A gateway that knows policies; those named so consent."""

    async def get(self, path: str, *_: Any, **__: Any) -> policy_service_pb2.GetPolicyResponse:
        name = path.rpartition("/")[2]
        spec = policy_pb2.PolicySpec(name=name, training_consent=name.startswith("consenting"))
        return policy_service_pb2.GetPolicyResponse(policy=policy_pb2.Policy(spec=spec))


@pytest.mark.parametrize(
    ("names", "consented"),
    [(["consenting"], True), (["consenting", "other"], True), (["other", "another"], False)],
)
async def test_whether_any_policy_consents_is_known_before_a_round(
    names: list[str], consented: bool
) -> None:
    gateway = cast(Any, Policies())
    assert await note_consent(Output(True), gateway, names, make_tasks(1)) is consented
    assert await note_consent(Output(True), gateway, names, make_tasks(1, Split.HELD_OUT))


def test_nothing_is_played_where_no_policy_consents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none_consents(*_: object) -> bool:
        return False

    monkeypatch.setattr("podium_cli.train.improve.note_consent", none_consents)
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(RUN | PUBLISH | {"output": str(tmp_path / "run")}))
    tasks = write_tasks(tmp_path / "tasks.jsonl", make_tasks(2))
    where = ["--url", "http://127.0.0.1:1", "--api-key", "key"]
    files = [str(path), "--task-file", tasks]
    rejected = RUNNER.invoke(app, ["train", "improve", *files, *where])
    assert rejected.exit_code == 2
    assert "consents to training" in rejected.stderr
