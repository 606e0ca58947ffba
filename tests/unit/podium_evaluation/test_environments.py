"""Programs of environments: found by name, asked by lines, given nothing that is the worker's."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from podium_evaluation.environments.lines import PROTOCOL
from podium_evaluation.environments.programs import (
    FOLDER_VARIABLE,
    EnvironmentFailed,
    EnvironmentLost,
    Environments,
    ask_for_suite,
    program_of,
)
from podium_kit.client.errors import UsageError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


def program(folder: Path, script: str, name: str = "bench") -> None:
    """A program that answers each line by the script, which has it as $line."""
    path = folder / name / "run"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\nwhile read -r line; do {script}; done\n")
    path.chmod(0o755)


def reply(**values: Any) -> str:
    return f"echo '{json.dumps(values)}'"


async def silent(who: str, messages: Sequence[Mapping[str, Any]]) -> str:
    raise EnvironmentFailed("nothing is asked here")


@pytest.mark.parametrize("name", ["../bench", "/bin", "bench/..", ".", "", "Bench", "absent"])
def test_a_program_is_a_folder_of_the_worker_and_nothing_else(folder: Path, name: str) -> None:
    program(folder, reply(id=1, result={}))
    with pytest.raises(UsageError) as missing:
        program_of(name)
    assert "podium eval setup" in missing.value.fix
    assert program_of("bench") == folder / "bench" / "run"


def test_a_program_gets_no_key_of_the_worker(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PODIUM_API_KEY", "secret")
    program(folder, f'env > "$0.seen"; {reply(id=1, result={"protocol": PROTOCOL})}')
    ask_for_suite("bench", {})
    seen = (folder / "bench" / "run.seen").read_text()
    assert "PATH=" in seen and "secret" not in seen and FOLDER_VARIABLE not in seen


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (reply(id=1, error="ValueError: no such domain"), "bench: ValueError: no such domain"),
        (reply(id=1, result={"protocol": PROTOCOL - 1}), "is of another version"),
        ("echo lost >&2; exit 1", "gave no answer: lost"),
        ("echo hello", "cannot be asked"),
    ],
)
def test_a_suite_that_cannot_be_listed_is_an_error_with_its_cause(
    folder: Path, script: str, words: str
) -> None:
    program(folder, script)
    with pytest.raises(UsageError) as failed:
        ask_for_suite("bench", {})
    assert words in failed.value.cause


async def test_a_program_that_ends_is_started_again(folder: Path) -> None:
    answers = reply(id=1, result={"protocol": PROTOCOL, "task": "hello"})
    program(folder, f"{answers}; echo 'out of memory' >&2; exit 1")
    environments = Environments()
    try:
        for _ in range(2):
            async with environments.session("bench", "a", silent) as session:
                assert (await session.open("", {}))["task"] == "hello"
                with pytest.raises(EnvironmentLost) as lost:
                    await session.judge("done")
                assert "out of memory" in lost.value.cause
    finally:
        await environments.close()


async def test_a_program_asks_the_worker_for_a_model(folder: Path) -> None:
    asks = reply(ask=7, session="a", who="user", messages=[{"role": "user", "content": "Hello"}])
    program(folder, f'{asks}; read -r answer; echo "{{\\"id\\": 1, \\"result\\": $answer}}"')
    asked: list[tuple[str, str]] = []

    async def answer(who: str, messages: Sequence[Mapping[str, Any]]) -> str:
        asked.append((who, messages[-1]["content"]))
        await asyncio.sleep(0)
        return "Good morning"

    environments = Environments()
    try:
        async with environments.session("bench", "a", answer) as session:
            assert await session.call("any", {}) == {"ask": 7, "text": "Good morning"}
        assert asked == [("user", "Hello")]
    finally:
        await environments.close()
