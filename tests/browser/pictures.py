"""Takes the pictures of README and docs of a running platform: `make pictures`, after `podium up`.

It asks the README's questions and plays the smoke evaluation first, so that there is something to
see.
"""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
from playwright.async_api import async_playwright

from browser.machine import CHROMIUM
from e2e.episodes_over_http import finished, new_id
from podium_operations.local.state import StateFolder, default_state_dir

IMAGES = Path("docs/images")
QUESTIONS = (
    "How many days are between 1 March and 24 December 2025?",
    "What is 12 percent of 350?",
    "Which country has the capital Nairobi?",
    "How far is it from Paris to Rome in kilometres?",
    "How many minutes are 3.5 hours?",
)


async def main() -> None:
    connection = StateFolder(default_state_dir()).read_connection()
    headers = {"authorization": f"Bearer {connection.api_key}"}
    ids = [new_id() for _ in QUESTIONS]
    async with httpx.AsyncClient(
        base_url=connection.gateway_url, headers=headers, timeout=300
    ) as client:
        for episode_id, task in zip(ids, QUESTIONS, strict=True):
            body = {"episode_id": episode_id, "spec": {"task": task}}
            (await client.post("/v1/episodes", json=body)).raise_for_status()
            await finished(client, episode_id)
    console = f"{connection.gateway_url}/console"
    async with async_playwright() as playwright, evaluation_report() as report:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1280, "height": 720})
        await page.goto(console)
        await page.get_by_label("API key").fill(connection.api_key)
        await page.get_by_role("button", name="Sign in").click()
        await page.locator("a.row-open").first.wait_for()
        await page.locator("button.facet").first.wait_for()
        await page.screenshot(path=IMAGES / "console-episodes.png")
        await page.goto(f"{console}/episodes/{ids[0]}")
        await page.get_by_role("button", name=re.compile("days_between")).first.click()
        await page.screenshot(path=IMAGES / "console.png")
        await page.set_viewport_size({"width": 1100, "height": 1130})
        await page.goto(report.as_uri())
        await page.get_by_role("heading").first.wait_for()
        await page.locator(".skeleton").first.wait_for(state="detached")
        await page.screenshot(path=IMAGES / "evaluation.png")
        await browser.close()


@asynccontextmanager
async def evaluation_report() -> AsyncIterator[Path]:
    with TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        command = (sys.executable, "-m", "podium_cli", "eval", "run", "smoke", "--report", page)
        process = await asyncio.create_subprocess_exec(*command)
        if await process.wait():
            sys.exit("the evaluation failed")
        yield page


if __name__ == "__main__":
    asyncio.run(main())
