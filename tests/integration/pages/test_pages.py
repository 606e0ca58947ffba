"""The README, the tutorials and the reference pages, word for word, on one platform.

The model is scripted, but it answers with what the platform's real tools gave it.
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

from builders.episode_costs import misreported
from integration.pages.pages import FILE, Page, Terminal
from integration.podium_cli.conftest import (
    CommandLine,
    end_quietly,
    engine_options,
    wait_until_up,
)
from openai_server import OpenAiServer
from podium_operations.local.state import Connection, StateFolder
from temporary_files import server_folder

ROOT = Path(__file__).parents[3]
DOCS, TUTORIALS = ROOT / "docs", ROOT / "docs" / "tutorials"
MODEL = "smollm2-135m-podium"
NOT_RUN = {
    "make ": "needs the network, or runs all tests; CI runs each",
    ". .venv/bin/activate": "the commands are on the path already",
    "podium up": "the fixture did",
    "podium tools test": "needs a provider's key; make providers replays their replies",
    "podium down": "the fixture does",
    "podium train rollout": "sixteen episodes; test_rollouts.py runs some",
    "python -m podium_training.grpo": "tests/integration/podium_training trains",
    "vllm serve": "needs a GPU; tests/e2e/test_paper_vllm.py serves a tiny model so",
    "podium tools test answer": "asks providers; tests/e2e/test_paper.py has recorded ones",
    "podium run --policy paper": "asks providers; tests/e2e/test_paper.py runs such an episode",
    "python examples/paper": "asks providers; tests/e2e/test_paper.py runs it",
    "helm ": "needs a cluster: make cluster-test",
    "podium doctor --cluster": "needs a cluster: test_doctor.py",
    'podium run "Do I need a coat': "weather.example is an example",
    "podium keys rotate 3f2a": "an example of an id",
    "podium keys revoke 3f2a": "an example of an id",
}
# Journeys: the pages that a reader follows one after the other.
JOURNEYS = {
    "readme": [ROOT / "README.md"],
    "tutorials": [
        TUTORIALS / "first-ten-minutes.md",
        TUTORIALS / "first-tool.md",
        TUTORIALS / "first-policy.md",
    ],
    "tools-and-policies": [DOCS / "tools-and-policies.md"],
    "guardrails": [DOCS / "guardrails.md", DOCS / "response-cache.md"],
    "webhooks": [DOCS / "webhooks.md"],
    "paper": [DOCS / "paper.md"],
    "tenancy": [DOCS / "tenancy.md"],
    "providers": sorted((DOCS / "providers").glob("*.md")),
}


def tool(name: str, result: str, **arguments: Any) -> tuple[dict[str, Any], str]:
    return {"tool": name, "arguments": arguments}, result


# By task: the call, and what of its result is the answer.
KNOWN: dict[str, tuple[dict[str, Any], str]] = {
    "capital of Burkina Faso": tool("country_facts", "Ouagadougou", country="Burkina Faso"),
    "capital of Mongolia": tool("country_facts", "Ulaanbaatar", country="Mongolia"),
    "currency code does Vietnam": tool("country_facts", "VND", country="Vietnam"),
    "kilometres are 26.2 miles": tool(
        "convert_units", r"42\.1648128", value="26.2 miles", to_unit="kilometres"
    ),
    "weather in Oslo": tool("forecast", '"high_celsius": ?4', city="Oslo"),
    "1789 multiplied by 2043": tool("calculator", "3654927", expression="1789 * 2043"),
    "time is it in Asia/Tokyo": tool(
        "time_get_current_time", r"[0-9-]+T[0-9:]+\+09:00", timezone="Asia/Tokyo"
    ),
    "60 * 60": tool("calculator", "31622400", expression="60 * 60 * 24 * 366"),
    "seconds has a leap year": tool("researcher", "31622400", task="What is 60 * 60 * 24 * 366?"),
}


def known(body: Mapping[str, Any]) -> tuple[str, tuple[dict[str, Any], str] | None]:
    prompt = "\n".join(str(message["content"]) for message in body["messages"])
    return prompt, next((found for task, found in KNOWN.items() if task in prompt), None)


def calls(body: Mapping[str, Any]) -> dict[str, Any]:
    _, found = known(body)
    return found[0] if found else {"answer": "unknown"}


def answers(body: Mapping[str, Any]) -> dict[str, Any]:
    prompt, found = known(body)
    result = re.search(found[1], prompt) if found else None
    return {"answer": result[0] if result else "the tool gave nothing"}


@dataclass(frozen=True)
class Reader:
    home: Path
    connection: Connection

    def terminal(self, folder: Path) -> Terminal:
        kept = {name: os.environ[name] for name in ("TMPDIR",) if name in os.environ}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return Terminal(folder, {**kept, "PATH": path, "HOME": str(self.home)})


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    with (
        server_folder("pages") as folder,
        # The model that a new platform has, and has a price of.
        OpenAiServer(script=[calls, answers, answers], models=(MODEL,)) as model,
    ):
        state = folder / ".local" / "state" / "podium"
        podium = CommandLine(state)
        process = podium.start("up", *engine_options(model), "--allow-host", "127.0.0.1")
        wait_until_up(podium, process)
        yield Reader(folder, StateFolder(state).read_connection())
        wrong = asyncio.run(misreported(state))
        end_quietly(process, signal.SIGTERM)
        assert not wrong, wrong


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("journey", JOURNEYS)
def test_a_page_works_as_written(reader: Reader, tmp_path: Path, journey: str) -> None:
    url, api_key = reader.connection.gateway_url, reader.connection.api_key
    problems = []
    # Some pages are read in a clone of the repository.
    for folder in ("bundled", "examples"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    with reader.terminal(tmp_path) as terminal:
        for path in JOURNEYS[journey]:
            page = Page(path, NOT_RUN)
            problems += [f"{path.name}: {each}" for each in terminal.problems(page, url, api_key)]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("journey", ["tutorials", "tools-and-policies", "paper"])
def test_git_ignores_the_files_that_a_page_has_its_reader_write(journey: str) -> None:
    pages = [Page(path, NOT_RUN) for path in JOURNEYS[journey]]
    named = [FILE.match(block) for page in pages for _, block in page.blocks]
    names = [match[1] for match in named if match]
    assert names
    ignored = subprocess.run(
        ["git", "check-ignore", "--no-index", *names],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ignored.stdout.split() == names


def test_every_exception_is_of_a_command_that_a_page_has() -> None:
    commands = [
        command
        for paths in JOURNEYS.values()
        for path in paths
        for command in Page(path, NOT_RUN).commands()
    ]
    unused = [start for start in NOT_RUN if not any(each.startswith(start) for each in commands)]
    assert not unused
    assert sum("# says" in command for command in commands) >= 14
