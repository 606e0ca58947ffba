"""The README's commands and Python, as written, against a running platform.

A comment `# says X` at the end of a line is compared with what the line prints. The model is
scripted, but it answers with what the platform's real tools gave it.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from episode_costs import misreported
from integration.podium_cli.conftest import (
    COMMAND_TIMEOUT_S,
    CommandLine,
    end_quietly,
    engine_options,
    wait_until_up,
)
from openai_server import OpenAiServer
from podium_cli.local.state import Connection, StateFolder
from temporary_files import server_folder

README = Path(__file__).parents[3] / "README.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAYS = re.compile(r"# says (.+)$", re.MULTILINE)
SPENDING = "Which currency code does Vietnam use?"
MODEL = "smollm2-135m-podium"
# By the beginning of a line why it is not run here.
NOT_RUN = {
    "make ": "needs the network, or runs all tests; CI runs each",
    ". .venv/bin/activate": "the commands are on the path already",
    "podium up": "the fixture did",
    "podium down": "the fixture does",
    "podium train rollout": "sixteen episodes; test_rollout.py runs some",
    "python -m podium_training.grpo": "tests/integration/podium_training trains",
    "helm ": "needs a cluster: make cluster-test",
    "podium doctor --cluster": "needs a cluster: test_doctor_cluster.py",
}
# By task: the call, and what of its result is the answer.
KNOWN: dict[str, tuple[dict[str, Any], str]] = {
    "capital of Burkina Faso": (
        {"tool": "country_facts", "arguments": {"country": "Burkina Faso"}},
        "Ouagadougou",
    ),
    "currency code does Vietnam": (
        {"tool": "country_facts", "arguments": {"country": "Vietnam"}},
        "VND",
    ),
    "time is it in Asia/Tokyo": (
        {"tool": "time_get_current_time", "arguments": {"timezone": "Asia/Tokyo"}},
        r"[0-9-]+T[0-9:]+\+09:00",
    ),
}


def known(body: Mapping[str, Any]) -> tuple[str, tuple[dict[str, Any], str] | None]:
    """The prompt, and what is known of its task."""
    prompt = "\n".join(str(message["content"]) for message in body["messages"])
    return prompt, next((found for task, found in KNOWN.items() if task in prompt), None)


def calls(body: Mapping[str, Any]) -> dict[str, Any]:
    _, found = known(body)
    return found[0] if found else {"answer": "unknown"}


def answers(body: Mapping[str, Any]) -> dict[str, Any]:
    """With what the tool gave, or that it gave nothing."""
    prompt, found = known(body)
    said = re.search(found[1], prompt) if found else None
    return {"answer": said[0] if said else "the tool gave nothing"}


@dataclass(frozen=True)
class Reader:
    """Somebody who tries what the README says, in a folder and a home of their own."""

    home: Path
    connection: Connection

    def problems(self, written: str, *command: str) -> list[str]:
        """What is wrong with a line or a program: it fails, or does not say what is stated."""
        kept = {name: os.environ[name] for name in ("TMPDIR",) if name in os.environ}
        own = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        ended = subprocess.run(
            command,
            check=False,
            cwd=self.home,
            env={**kept, "PATH": own, "HOME": str(self.home)},
            capture_output=True,
            text=True,
            timeout=2 * COMMAND_TIMEOUT_S,
        )
        said = f"{written}\nended with {ended.returncode}\n{ended.stdout}{ended.stderr}"
        stated = [each.strip() for each in SAYS.findall(written)]
        holds = ended.returncode == 0 and all(each in ended.stdout for each in stated)
        return [] if holds else [said]


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    """The state is where it is by itself: below the home."""
    with (
        server_folder("readme") as folder,
        # The model that a new platform has, and has a price of.
        OpenAiServer(script=[calls, answers, answers], models=(MODEL,)) as model,
    ):
        state = folder / ".local" / "state" / "podium"
        podium = CommandLine(state)
        process = podium.start("up", *engine_options(model))
        wait_until_up(podium, process)
        connection = StateFolder(state).read_connection()
        reader = Reader(folder, connection)
        # What the auditor finds: blocks are tried in any order.
        assert not reader.problems("", "podium", "run", SPENDING, "--tool", "country_facts")
        yield reader
        wrong = asyncio.run(misreported(state))
        end_quietly(process, signal.SIGTERM)
        assert not wrong, wrong


BLOCKS = BLOCK.findall(README.read_text())


@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", range(len(BLOCKS)), ids=str)
def test_what_the_readme_shows_works_as_written(reader: Reader, number: int) -> None:
    language, block = BLOCKS[number]
    if language == "python":
        base_url = f"{reader.connection.gateway_url}/v1"
        program = block.replace("http://127.0.0.1:PORT/v1", base_url)
        program = program.replace("pod_...", reader.connection.api_key)
        problems = reader.problems(block, sys.executable, "-c", program)
    else:
        lines = [line for line in block.splitlines() if not line.startswith(tuple(NOT_RUN))]
        problems = [
            problem
            for line in filter(None, lines)
            for problem in reader.problems(line, "bash", "-euo", "pipefail", "-c", line)
        ]
    assert not problems, "\n".join(problems)


def test_nothing_is_left_out_because_the_readme_changed_its_form() -> None:
    blocks = [block for _, block in BLOCKS]
    assert any(language == "python" for language, _ in BLOCKS)
    assert len(SAYS.findall("\n".join(blocks))) >= 4
    lines = [line for block in blocks for line in block.splitlines()]
    unused = [start for start in NOT_RUN if not any(line.startswith(start) for line in lines)]
    assert not unused
