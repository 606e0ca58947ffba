"""The real `podium up` as a process, with a scripted model behind it, and its command line."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from builders.episode_costs import misreported
from openai_server import OpenAiServer
from process_owner import runs
from temporary_files import server_folder

# What the platform's user sets for tools before `podium up`.
FOR_TOOLS = {
    "TOOL_ADAPTERS_SECRET_DEFAULT__OWN_KEY": "the user's own",
    "TOOL_ADAPTERS_ALLOWED_HOSTS": '["127.0.0.1"]',
}
UP_TIMEOUT_S = 240
COMMAND_TIMEOUT_S = 240


@dataclass
class CommandLine:
    """Runs `podium` as a person would: a process with an environment of its own."""

    state_dir: Path
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self._line(arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._whole_environment(),
        )

    def __call__(self, *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self._line(arguments),
            input=stdin,
            capture_output=True,
            check=False,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            env=self._whole_environment(),
        )

    def _line(self, arguments: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "podium_cli", *arguments]

    def _whole_environment(self) -> dict[str, str]:
        names = ("PATH", "HOME", "TMPDIR", "OMP_NUM_THREADS")
        kept = {name: os.environ[name] for name in names if name in os.environ}
        # The command imports what the test imports.
        kept["PYTHONPATH"] = os.pathsep.join(sys.path)
        return {**kept, "PODIUM_STATE_DIR": str(self.state_dir), **self.environment}

    def json(self, *arguments: str) -> Any:
        ended = self(*arguments, "--json")
        assert ended.returncode == 0, ended.stderr or ended.stdout
        return json.loads(ended.stdout)


@dataclass(frozen=True)
class Platform:
    podium: CommandLine
    model: OpenAiServer
    process: "subprocess.Popen[str]"


def engine_options(model: OpenAiServer) -> list[str]:
    return ["--openai-base-url", model.base_url, "--openai-model", model.models[0]]


def wait_until_up(podium: CommandLine, process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + UP_TIMEOUT_S
    while not (podium.state_dir / "connection.json").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise AssertionError(process.communicate())
        time.sleep(0.1)


def end_quietly(process: "subprocess.Popen[str]", with_signal: signal.Signals) -> int:
    """Exit status after the signal; fails when a descendant survives."""
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(with_signal)
    process.communicate(timeout=COMMAND_TIMEOUT_S)
    survivors = [each for each in family if runs(each)]
    assert not survivors, survivors
    return process.returncode


@pytest.fixture(scope="session")
def platform() -> Iterator[Platform]:
    """One platform for all tests of this folder; after them, every cost must be in the ledger."""
    with server_folder("cli") as folder, OpenAiServer() as model:
        podium = CommandLine(folder / "state", FOR_TOOLS)
        process = podium.start("up", *engine_options(model))
        wait_until_up(podium, process)
        yield Platform(podium, model, process)
        wrong = asyncio.run(misreported(podium.state_dir))
        end_quietly(process, signal.SIGTERM)
        assert not wrong, wrong


@pytest.fixture
def podium(platform: Platform) -> CommandLine:
    return platform.podium


@pytest.fixture
def model(platform: Platform) -> Iterator[OpenAiServer]:
    """The model of the running platform; a reply left over would answer the next test."""
    yield platform.model
    left = platform.model.take_back()
    assert not left, f"replies that were not requested: {left}"
