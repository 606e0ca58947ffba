"""The console in a real browser, against a whole platform with people of every role."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest_asyncio

from browser.machine import CHROMIUM
from browser.versions import trained_versions
from e2e.episodes_over_http import finished
from local_platforms import local_platform
from openai_server import OpenAiServer, Reply, Scripted
from podium_kit.rpc.identity import Role
from podium_operations.local.keys import TENANT, issue_first_key
from podium_operations.local.platform import LocalPlatform
from podium_operations.local.state import Connection
from temporary_files import server_folder

if TYPE_CHECKING:
    # Machines without the driver collect this file, and no test of it.
    from playwright.async_api import Browser, Page

MODEL = "scripted-model"
# What a user, a tool or a model may write, and no page may run.
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
ROLES = (
    *("developer", "approver", "auditor", "tool-owner", "tenant-admin"),
    *("ml-engineer", "platform-admin"),
)
SUM = {"thought": f"I will compute it. {HOSTILE}", "tool": "calculator"}
APPROVED = {
    "name": "careful",
    "unknown_price": "UNKNOWN_PRICE_RULE_ADMIT",
    "approval": {"names": ["calculator"]},
    # One admin created the keys of all roles, and may be behind each of them.
    "self_approval": True,
}


ANSWER = json.dumps({"answer": f"42 {HOSTILE}"})
# The answer to a task with these words waits for the gate after its first word.
HELD_BACK = "Held back."


def script(gate: threading.Event) -> tuple[Scripted, ...]:
    """A sum, then the answer."""

    def answered(body: Mapping[str, Any]) -> Reply:
        held = HELD_BACK in json.dumps(body["messages"])
        return Reply(ANSWER, gate=gate if held else None, gate_after=ANSWER.index("42") + 2)

    return json.dumps({**SUM, "arguments": {"expression": "6*7"}}), answered


@dataclass(frozen=True)
class ConsoleUnderTest:
    url: str
    # Keys by role.
    keys: Mapping[str, str]
    # The latest episode that has ended, and one whose call waits for a decision.
    ended: str
    waiting: str
    # Trained versions.
    store: Path
    platform: LocalPlatform
    gate: threading.Event

    def http(self, role: str = "tenant-admin") -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {self.keys[role]}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=120)

    async def start(self, task: str, role: str = "developer", **spec: str | bool) -> str:
        async with self.http(role) as client:
            body = {"spec": {"task": task, "tool_names": ["calculator"], **spec}}
            reply = await client.post("/v1/episodes", json=body)
            assert reply.is_success, reply.text
            return str(reply.json()["episode"]["id"])


@pytest_asyncio.fixture(scope="session")
async def console() -> AsyncIterator[ConsoleUnderTest]:
    async with console_platform() as console:
        yield console


@asynccontextmanager
async def console_platform() -> AsyncIterator[ConsoleUnderTest]:
    """A platform with people of every role, episodes, and trained versions."""
    gate = threading.Event()
    with server_folder("console") as folder, OpenAiServer(script=script(gate)) as model:
        store = trained_versions(folder / "versions", HOSTILE)
        platform = local_platform(folder, model.base_url, MODEL, policy_store=store)
        async with platform as (running, connection):
            # What reaches beyond a tenant is granted where the gateway's database is.
            keys = {
                "ml-engineer": await issue_first_key(
                    running.dsn["gateway"], TENANT, "ml-engineer-ada", Role.ML_ENGINEER
                ),
                "platform-admin": connection.admin_key,
            }
            yield await _prepared(running, connection, keys, store, gate)


async def _prepared(
    platform: LocalPlatform,
    connection: Connection,
    granted: Mapping[str, str],
    store: Path,
    gate: threading.Event,
) -> ConsoleUnderTest:
    url = connection.gateway_url
    headers = {"authorization": f"Bearer {connection.api_key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=120) as admin:
        keys = {role: granted.get(role) or await _key(admin, role) for role in ROLES}
        policy = await admin.post("/v1/policies", json={"spec": APPROVED})
        assert policy.is_success, policy.text
        console = ConsoleUnderTest(url, keys, "", "", store, platform, gate)
        for number in range(4):
            ended = await console.start(f"What is 6 x 7? Try {number}. {HOSTILE}")
        await finished(admin, ended)
    waiting = await console.start("Pay 6 x 7 dollars", policy="careful")
    return ConsoleUnderTest(url, keys, ended, waiting, store, platform, gate)


async def _key(admin: httpx.AsyncClient, role: str) -> str:
    reply = await admin.post("/v1/api-keys", json={"subject": f"{role}-ada", "roles": [role]})
    assert reply.is_success, reply.text
    return str(reply.json()["key"])


@pytest_asyncio.fixture(scope="session")
async def chromium() -> AsyncIterator["Browser"]:
    from playwright.async_api import async_playwright  # noqa: PLC0415

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        await browser.close()


@dataclass
class Person:
    """A signed-in person before a page; what the browser complained about, too."""

    page: "Page"
    console: ConsoleUnderTest
    complaints: list[str]

    async def open(self, path: str) -> None:
        await self.page.goto(f"{self.console.url}/console{path}")

    async def sees(self, text: str) -> None:
        await self.page.get_by_text(text).first.wait_for()

    async def sees_heading(self, text: str) -> None:
        await self.page.get_by_role("heading", name=text).first.wait_for()

    async def finds_in(self, label: str, value: str) -> None:
        from playwright.async_api import expect  # noqa: PLC0415

        await expect(self.page.get_by_label(label)).to_have_value(value, timeout=60_000)

    async def sign_in(self, role: str) -> None:
        await self.open("")
        await self.page.get_by_label("API key").fill(self.console.keys[role])
        await self.page.get_by_role("button", name="Sign in").click()
        await self.page.get_by_role("navigation", name="Podium").wait_for()


@pytest_asyncio.fixture
async def person(chromium: "Browser", console: ConsoleUnderTest) -> AsyncIterator[Person]:
    context = await chromium.new_context(viewport={"width": 1280, "height": 820})
    context.set_default_timeout(60_000)
    page = await context.new_page()
    person = Person(page, console, [])
    page.on(
        "console",
        lambda message: (
            person.complaints.append(message.text)
            if message.type == "error" and "Failed to load resource" not in message.text
            else None
        ),
    )
    page.on("pageerror", lambda error: person.complaints.append(str(error)))
    yield person
    await context.close()
    await asyncio.sleep(0)
    # The policy's violations and uncaught errors.
    assert not person.complaints
