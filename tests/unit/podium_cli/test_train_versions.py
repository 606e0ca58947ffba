import asyncio
import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from evaluations import evaluated
from podium_cli.app import app
from podium_cli.train import progress
from podium_kit.policy_versions import Alias, Aliases, ArtifactRejected, VersionStore
from podium_kit.policy_versions.reports import Report, write_report
from unit.podium_kit.policy_versions.test_store import fill, make_manifest

OLD, NEW = "policy-demo-v1", "policy-demo-v2"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two versions; the older one is promoted."""
    root = tmp_path / "store"
    for name in (OLD, NEW):
        VersionStore(root).write(make_manifest(name), fill)
    Aliases(root).move(Alias.PROMOTED, OLD)
    return root


def podium(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["train", *map(str, arguments)])


def write_evaluations(folder: Path, gain: float, count: int = 40) -> tuple[Path, Path]:
    paths = folder / "new.jsonl", folder / "old.jsonl"
    for path, name, score in zip(paths, (NEW, OLD), (0.5 + gain, 0.5), strict=True):
        lines = [evaluated(task, name, score).model_dump_json() for task in range(count)]
        path.write_text("\n".join(lines))
    return paths


def run_gate(store: Path, gain: float, *options: str, count: int = 40) -> Result:
    new, old = write_evaluations(store.parent, gain, count)
    files = ("--candidate", new, "--promoted", old)
    return podium("gate", NEW, "--store", store, *files, "--json", *options)


def test_a_better_version_passes_the_gate_and_a_worse_one_does_not(store: Path) -> None:
    found = run_gate(store, 0.25)
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["verdict"] == "promote"
    (store / "decisions" / f"{NEW}.json").unlink()
    assert run_gate(store, -0.25).exit_code == 1


def test_only_unreferenced_and_unloaded_files_are_deleted(store: Path) -> None:
    names = [f"policy-demo-v{number}" for number in range(3, 8)]
    for name in names:
        VersionStore(store).write(make_manifest(name), fill)
    Aliases(store).move(Alias.CANDIDATE, names[0])
    for name, replicas, faults in zip(
        names, (0, 1, 0, 0), (["retired"], ["retired"], ["retired"], []), strict=False
    ):
        write_report(store, report(name, replicas, faults))
    pruned = podium("prune", "--store", store, "--json")
    assert json.loads(pruned.stdout) == {"removed": [names[2]]}
    assert not (store / names[2]).exists()
    with pytest.raises(ArtifactRejected, match="used before"):
        VersionStore(store).write(make_manifest(names[2]), fill)


def report(name: str, replicas: int, faults: list[str]) -> Report:
    return Report(name=name, ready=False, replicas_ready=0, replicas=replicas, faults=tuple(faults))


def test_the_same_gate_look_is_rejected_the_second_time(store: Path) -> None:
    assert run_gate(store, 0.25, "--looks", "2", count=10).exit_code == 1
    again = run_gate(store, 0.25, "--looks", "2")
    assert again.exit_code == 2
    assert "look 1" in again.stderr
    assert run_gate(store, 0.25, "--looks", "2", "--look", "2").exit_code == 0


@pytest.mark.parametrize("changed", [("--looks", "2"), ("--looks", "3", "--delta", "0.5")])
def test_rules_do_not_change_after_a_look(store: Path, changed: tuple[str, ...]) -> None:
    planned = ("--looks", "1") if changed == ("--looks", "2") else ("--looks", "3")
    assert run_gate(store, -0.25, *planned).exit_code == 1
    again = run_gate(store, 0.25, "--look", "2", *changed)
    assert again.exit_code == 2
    assert " ".join(planned) in again.stderr


@pytest.mark.parametrize(
    ("option", "value", "accepted"),
    [
        ("--cost-max", "-1", "greater than or equal to 0"),
        ("--cost-max", "inf", "finite number"),
        ("--latency-max", "0", "greater than 0"),
    ],
)
def test_a_limit_that_is_none_is_rejected_by_its_option(
    store: Path, option: str, value: str, accepted: str
) -> None:
    rejected = run_gate(store, 0.25, option, value)
    assert rejected.exit_code == 2
    assert option in rejected.stderr
    assert accepted in rejected.stderr
    assert not (store / "decisions").exists()


def test_a_damaged_checkpoint_is_named_and_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podium_training.grpo.run.publisher_of", lambda _: object())
    checkpoint = tmp_path / "run" / "checkpoints" / "step-00000001"
    checkpoint.mkdir(parents=True)
    (checkpoint / "state.json").write_text("{")
    (checkpoint / "manifest.json").write_text(json.dumps({"state.json": "another digest"}))
    config = {"model": "base", "output": str(tmp_path / "run"), "steps": 1}
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({**config, "stream": {"bootstrap": "127.0.0.1:1"}}))
    rejected = podium("publish", path)
    assert rejected.exit_code == 2
    assert "step-00000001" in "".join(rejected.stderr.split())
    assert "is not what was written" in " ".join(rejected.stderr.split())


def write_metrics(folder: Path) -> Path:
    lines = [
        {"step": step, "reward_mean": 0.1 * step, "reward_solved": 0.1 * step, "cost_mean": 0.01}
        | {"drift_mean": 0.02, "lag": 3, "calls search": 0.5, "calls <b>": 1.0}
        | {"rejected malformed": 2, "rejected bad logprob": 1}
        | {"adherence cost cost first": 0.01, "adherence cost even": 0.02}
        | {"adherence preferred": 0.5}
        for step in (1, 2, 2)
    ]
    path = folder / "metrics.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 3, "rew')
    return folder


def test_watching_shows_every_step_once_and_not_the_one_being_written(tmp_path: Path) -> None:
    found = podium("watch", write_metrics(tmp_path), "--no-follow")
    assert [line.split()[1] for line in found.stdout.splitlines()] == ["1", "2"]
    assert "solved 20%" in found.stdout
    assert found.stdout.count("rejected 3") == 2


def test_watching_a_run_that_is_not_there_says_what_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(asyncio, "sleep", interrupted)
    found = podium("watch", tmp_path / "misspelt")
    assert found.exit_code == 130
    assert "misspelt has no step yet" in " ".join(found.stderr.split())


def test_watching_ends_with_an_error_where_no_run_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "BEGIN_S", -1.0)
    found = podium("watch", tmp_path / "misspelt")
    assert found.exit_code == 2
    assert "there is no run in" in " ".join(found.stderr.split())


def test_the_report_is_a_page_of_plots_that_escapes_markup(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    found = podium("report", write_metrics(tmp_path), "--output", page)
    assert found.exit_code == 0, found.output
    text = page.read_text()
    assert text.count("<svg") == 7
    assert text.count("Preference adherence") == 2
    assert "Cost against accuracy" in text
    assert "<b>" not in text


def test_a_folder_that_is_no_run_is_reported(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("[]\n")
    assert podium("report", tmp_path).exit_code == 2
    assert podium("watch", tmp_path / "nothing", "--no-follow").exit_code == 2
