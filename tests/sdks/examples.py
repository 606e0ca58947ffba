"""`python -m sdks.examples`: every program of examples/ against a whole platform.

Each has an environment of its own with the newest packages that it names, and the clients of this
checkout. The platform is the one of `podium up` with a scripted model. One that fails keeps no
other from being run. Prints a table at the end; ends with status 1 when one of them fails, or does
not print what it should.
"""

import argparse
import asyncio
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from clients.environments import Client, InstallFailed, run
from local_platforms import local_platform
from openai_server import OpenAiServer
from podium_kit.embedded.ports import free_port
from podium_operations.local.state import Connection
from sdks import typescript_client
from sdks.example_model import MODEL, reply
from temporary_files import server_folder

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PYTHON_CLIENT = ROOT / "sdks" / "python"
TYPESCRIPT = "typescript"
TURNS_MAX = 8
TIMEOUT_S = 300


@dataclass(frozen=True)
class Example:
    program: str
    packages: tuple[str, ...] = ()
    expected: str = ""
    arguments: tuple[str, ...] = ()
    status: int = 0

    @property
    def client(self) -> Client:
        return Client(self.program, f"example-{self.program}", self.packages)


OWN = ("httpx", "pydantic")
EXAMPLES_RUN = (
    Example("langgraph_agent.py", ("langchain", "langchain-openai"), r"-3 degrees\."),
    Example("openai_agents_team.py", ("openai-agents",), r"Ouagadougou is\."),
    Example("openai_own_tools.py", ("openai",), r"-> -3 degrees\n-3 degrees\.\nepisode \S+ cost"),
    Example("anthropic_messages.py", ("anthropic",), r"It is 42\.\n\d+ tokens in"),
    Example("fastapi_live_turns.py", (*OWN, "fastapi", "uvicorn"), r"turn 1: calculator[^$]*42"),
    Example(
        "approval_bot.py",
        OWN,
        r"approved calculator[^$]*It is 42[^$]*denied calculator[^$]*Nobody allowed that",
        ("--demo",),
    ),
    Example("ci_gate.py", OWN, r"2 of 3 solved", ("baseline.json", "--write")),
    Example("ci_gate.py", OWN, r"2 of 3 solved", ("baseline.json",)),
    Example("ci_gate.py", OWN, r"not solved any more: What is 2 to", ("better.json",), status=1),
    Example("spend_report.py", OWN, r"calculator / -\s+\d+\s+\S+ USD[^$]*total[^$]*examples: 9"),
    Example("mcp_client.py", ("fastmcp",), r"final answer[^$]*It is 42"),
    Example(TYPESCRIPT, (), r"client_calls_requested[^$]*-3 degrees\."),
)
SERVER = "fastapi_live_turns.py"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="sdks.examples",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = list(dict.fromkeys(example.program for example in EXAMPLES_RUN))
    parser.add_argument("programs", nargs="*", help=f"of {', '.join(names)}")
    wanted = parser.parse_args().programs or names
    if unknown := sorted(set(wanted) - set(names)):
        parser.error(f"there is no program {unknown[0]}; known are {', '.join(names)}")
    if TYPESCRIPT in wanted and not typescript_client.available():
        print("not run: examples/typescript, which needs node 20 or later with npm")
        wanted = [name for name in wanted if name != TYPESCRIPT]
    chosen = [example for example in EXAMPLES_RUN if example.program in wanted]
    sys.exit(asyncio.run(run_all(chosen)))


async def run_all(examples: Sequence[Example]) -> int:
    missing = {}
    for example in {each.program: each for each in examples}.values():
        print(f"installing what {example.program} needs", file=sys.stderr)
        try:
            await install(example)
        except (InstallFailed, AssertionError) as error:
            missing[example.program] = f"not installed: {error}"
    problems = []
    async with platform() as connection:
        approver_key = await prepare(connection)
        with server_folder("examples-work") as work:
            write_better_baseline(work)
            for example in examples:
                print(f"running {example.program}", file=sys.stderr)
                problems.append(
                    missing.get(example.program)
                    or await problem_of(example, connection, approver_key, work)
                )
    print(table(examples, problems))
    print("\n".join(filter(None, problems)), file=sys.stderr)
    return 1 if any(problems) else 0


async def problem_of(
    example: Example, connection: Connection, approver_key: str, work: Path
) -> str:
    try:
        said, status = await finished(example, connection, approver_key, work)
    except (TimeoutError, OSError, AssertionError, httpx.HTTPError) as error:
        return f"{example.program}: {error!r}"
    if status == example.status and re.search(example.expected, said):
        return ""
    return f"{example.program} ended with status {status}:\n{said}"


def table(examples: Sequence[Example], problems: Sequence[str]) -> str:
    rows = [("program", "result"), ("---", "---")]
    for example, problem in zip(examples, problems, strict=True):
        call = " ".join((example.program, *example.arguments))
        rows.append((call, "FAILED" if problem else "ran"))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


async def install(example: Example) -> None:
    if example.program == TYPESCRIPT:
        await typescript_client.build()
        folder = example.client.folder.resolve()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(EXAMPLES / TYPESCRIPT, folder)
        packed = await typescript_client.run(
            "npm", "pack", "--silent", "--pack-destination", str(folder)
        )
        archive = folder / packed.split()[-1]
        await run("npm", "install", "--silent", "--no-audit", "--no-fund", str(archive), cwd=folder)
        return
    await example.client.install()
    if example.packages[: len(OWN)] == OWN:
        python = str(example.client.python)
        uv = str(Path(sys.executable).parent / "uv")
        options = ("--quiet", "--no-deps", "--reinstall", "--python", python)
        await run(uv, "pip", "install", *options, str(PYTHON_CLIENT))


@asynccontextmanager
async def platform() -> AsyncIterator[Connection]:
    with (
        server_folder("examples") as folder,
        OpenAiServer(script=[reply] * TURNS_MAX, models=[MODEL]) as model,
    ):
        async with local_platform(folder, model.base_url, MODEL) as (_, connection):
            yield connection


async def prepare(connection: Connection) -> str:
    price = {
        "sku": f"orchestrator/{MODEL}",
        "currency_code": "USD",
        "components": [{"dimension": "USAGE_DIMENSION_OUTPUT_TEXT", "unit_price": "0.000001"}],
    }
    usd = {"currency_code": "USD", "amount": "100"}
    budget = {"id": "examples", "scope": "BUDGET_SCOPE_TENANT", "window": "BUDGET_WINDOW_DAY"}
    bot = {"subject": "approval-bot", "roles": ["approver"]}
    await post(connection, connection.admin_key, "/v1/prices", {"specs": [price]})
    limited = {"budget": {**budget, "hard_limit": usd}}
    await post(connection, connection.api_key, "/v1/budgets", limited)
    created = await post(connection, connection.api_key, "/v1/api-keys", bot)
    return str(created["key"])


async def post(connection: Connection, key: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=connection.gateway_url, headers=headers) as client:
        answer = await client.post(path, json=body)
    assert answer.is_success, answer.text
    found: dict[str, Any] = answer.json()
    return found


def write_better_baseline(work: Path) -> None:
    text = '{"solved": ["What is 2 to the power of 10?"], "cost": "1"}'
    (work / "better.json").write_text(text)


async def finished(
    example: Example, connection: Connection, approver_key: str, work: Path
) -> tuple[str, int]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(work),
        "PODIUM_URL": connection.gateway_url,
        "PODIUM_API_KEY": connection.api_key,
        "PODIUM_APPROVER_KEY": approver_key,
    }
    if example.program == SERVER:
        return await served(example, environment, work)
    command = [str(example.client.python.absolute()), str(EXAMPLES / example.program)]
    if example.program == TYPESCRIPT:
        command, work = ["npm", "start", "--silent", "--"], example.client.folder.resolve()
    process = await started([*command, *example.arguments], environment, work)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return said.decode(), process.returncode or 0


async def served(example: Example, environment: dict[str, str], work: Path) -> tuple[str, int]:
    port = free_port()
    command = [str(example.client.python.absolute()), str(EXAMPLES / example.program), str(port)]
    process = await started(command, environment, work)
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=None) as client,
        ):
            while True:
                try:
                    first = await client.get("/ask", params={"task": "What is 6 x 7?"})
                    break
                except httpx.ConnectError:
                    assert process.returncode is None, "the web service ended"
                    await asyncio.sleep(0.1)
            again = await client.get(f"/ask/{first.headers['x-episode']}")
        return (first.text, 0) if first.text == again.text else (first.text + again.text, 1)
    finally:
        process.terminate()
        await process.wait()


async def started(
    command: Sequence[str], environment: dict[str, str], work: Path
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *command,
        cwd=work,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


if __name__ == "__main__":
    main()
