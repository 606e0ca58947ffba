"""An episode in the console: why it did what it did, run again beside the first, and redacted."""

import re

import pytest

from browser.conftest import ConsoleUnderTest, Person
from e2e.episodes_over_http import finished

pytestmark = pytest.mark.browser


FOND_OF_SUMS = {
    "name": "fond-of-sums",
    "unknown_price": "UNKNOWN_PRICE_RULE_ADMIT",
    "preferences": {"outcome": 1, "compute": 0, "latency": 0, "tools": {"calculator": 1}},
}


async def test_a_developer_reads_what_the_prompt_stated_of_each_way(
    person: Person, console: ConsoleUnderTest
) -> None:
    spec = {
        "task": "What is 6 x 7? By the worth of its ways.",
        "tool_names": ["calculator", "convert_units", "days_between"],
        "policy": "fond-of-sums",
    }
    async with console.http() as client:
        reply = await client.post("/v1/policies", json={"spec": FOND_OF_SUMS})
        assert reply.is_success, reply.text
        reply = await client.post("/v1/episodes", json={"spec": spec})
        episode = reply.json()["episode"]["id"]
        await finished(client, episode)
    await person.sign_in("developer")
    await person.open(f"/episodes/{episode}")
    await person.page.get_by_role("button", name=re.compile("Model decides")).first.click()
    await person.page.get_by_role("tab", name="Why").click()
    line = person.page.get_by_role("tabpanel").locator("blockquote")
    stated = await line.inner_text()
    assert "Weights: outcome 1, cost 0, latency 0, calculator 1." in stated
    assert "A right answer is worth, of 10: calculator 10, by tools 5." in stated
    ways = person.page.get_by_role("region", name="Worth")
    called = ways.get_by_role("row").filter(has_text="calculator ●")
    assert await called.get_by_role("meter").get_attribute("aria-valuenow") == "100"
    offered = person.page.get_by_role("region", name="Offered tools")
    await offered.get_by_text("calculator").wait_for()


async def test_a_developer_reads_what_guardrails_found_in_a_call_and_in_the_answer(
    person: Person, console: ConsoleUnderTest
) -> None:
    spec = {
        "name": "guarded-console",
        "unknown_price": "UNKNOWN_PRICE_RULE_ADMIT",
        "guardrails": [
            {
                "name": "long",
                "action": "GUARDRAIL_ACTION_FLAG",
                "size": {"max_characters": 1},
                "stages": ["GUARDRAIL_STAGE_OUTPUT", "GUARDRAIL_STAGE_ANSWER"],
            },
            {
                "name": "no-six",
                "action": "GUARDRAIL_ACTION_BLOCK",
                "deny": {"words": ["6"]},
                "stages": ["GUARDRAIL_STAGE_INPUT"],
            },
        ],
    }
    async with console.http() as client:
        reply = await client.post("/v1/policies", json={"spec": spec})
        assert reply.is_success, reply.text
        episode = await console.start("What is 6 x 7? Guarded.", policy="guarded-console")
        await finished(client, episode)
    await person.sign_in("developer")
    await person.open(f"/episodes/{episode}")
    await person.page.get_by_role("button", name=re.compile("calculator")).first.click()
    found = person.page.get_by_role("region", name="Guardrails")
    await found.get_by_text("no-six").wait_for()
    assert "blocked" in (await found.inner_text()).lower()
    await person.page.get_by_role("button", name=re.compile("Model decides")).last.click()
    await found.get_by_text("long").wait_for()
    assert "flagged" in (await found.inner_text()).lower()


async def test_a_developer_runs_an_episode_again_under_another_policy_beside_the_first(
    person: Person, console: ConsoleUnderTest
) -> None:
    spec = {"name": "patient-console", "unknown_price": "UNKNOWN_PRICE_RULE_ADMIT"}
    async with console.http() as client:
        reply = await client.post("/v1/policies", json={"spec": spec})
        assert reply.is_success, reply.text
    await person.sign_in("developer")
    await person.open(f"/episodes/{console.ended}")
    await person.page.get_by_role("button", name="Run again").click()
    dialog = person.page.get_by_role("dialog")
    await dialog.get_by_label("Policy").first.select_option("patient-console")
    await dialog.get_by_role("button", name="Start", exact=True).click()
    await person.page.wait_for_url(re.compile(f"/episodes/compare.ids={console.ended}"))
    first = person.page.get_by_role("article", name="First")
    second = person.page.get_by_role("article", name="Run 2")
    await second.get_by_text("answered").wait_for()
    for run, policy in ((first, "balanced@1"), (second, "patient-console@1")):
        await run.get_by_role("listitem").filter(has_text="calculator").wait_for()
        shown = await run.inner_text()
        assert policy in shown and "42" in shown and "$" in shown
    assert "%" in await second.inner_text()


async def test_an_auditor_follows_the_steps_of_an_episode_without_their_content(
    person: Person, console: ConsoleUnderTest
) -> None:
    await person.sign_in("auditor")
    await person.open(f"/episodes/{console.ended}")
    step = person.page.get_by_role("button", name=re.compile("calculator"))
    await step.first.click()
    await person.sees_heading("calculator")
    await person.page.get_by_role("tab", name="Raw").click()
    raw = await person.page.get_by_label("Raw").last.inner_text()
    assert "tool_returned" in raw
    main = await person.page.locator("main").inner_text()
    assert "6*7" not in main and "6 x 7" not in main and "compute it" not in main
