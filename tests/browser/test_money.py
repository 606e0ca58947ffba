"""Money in the console: what a waiting call may cost, and where a budget will be at its end."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from browser.conftest import ConsoleUnderTest, Person
from e2e.episodes_over_http import finished

pytestmark = pytest.mark.browser


async def test_an_approver_sees_the_task_the_rule_and_the_price_of_a_waiting_call(
    person: Person,
) -> None:
    await person.sign_in("approver")
    await person.open("/approvals")
    link = person.page.locator(f'a[href$="{person.console.waiting}"]')
    card = person.page.locator("li.card").filter(has=link)
    await card.wait_for()
    shown = await card.inner_text()
    assert "Pay 6 x 7 dollars" in shown
    assert "a person's approval by name calculator" in shown
    assert "$0.0000010" in shown
    assert "pure" in shown and "careful" in shown


async def test_a_budget_says_where_spending_as_so_far_leads(
    person: Person, console: ConsoleUnderTest
) -> None:
    end = datetime.now(UTC) + timedelta(minutes=10)
    budget = {
        "id": "short",
        "scope": "BUDGET_SCOPE_TENANT",
        "window": "BUDGET_WINDOW_TOTAL",
        "hard_limit": {"currency_code": "USD", "amount": "5"},
        "end_time": end.isoformat(),
    }
    async with console.http() as client:
        reply = await client.post("/v1/budgets", json={"budget": budget})
        assert reply.is_success, reply.text
        await finished(client, await console.start("What is 6 x 7? Within a short budget."))
    await person.sign_in("developer")
    await person.open("/budgets")
    card = person.page.locator("li.card").filter(has_text="short")
    # The first fiftieth of its time says nothing.
    await card.get_by_text("At this pace $").wait_for()
    assert "an even pace" in await card.inner_text()


async def test_a_budget_lists_its_windows_so_far(person: Person, console: ConsoleUnderTest) -> None:
    budget = {
        "id": "counted-days",
        "scope": "BUDGET_SCOPE_TENANT",
        "window": "BUDGET_WINDOW_DAY",
        "hard_limit": {"currency_code": "USD", "amount": "3"},
    }
    async with console.http() as client:
        reply = await client.post("/v1/budgets", json={"budget": budget})
        assert reply.is_success, reply.text
        await finished(client, await console.start("What is 6 x 7? In a window."))
    await person.sign_in("auditor")
    await person.open("/budgets")
    card = person.page.locator("li.card").filter(has_text="counted-days")
    await card.get_by_role("button", name="Windows so far").click()
    row = card.get_by_role("table").get_by_role("row").nth(1)
    await row.get_by_text("$3").wait_for()
    assert "$0.0" in await row.inner_text()


async def test_an_admin_raises_a_budget_for_a_while(
    person: Person, console: ConsoleUnderTest
) -> None:
    budget = {
        "id": "launching",
        "scope": "BUDGET_SCOPE_TENANT",
        "window": "BUDGET_WINDOW_MONTH",
        "hard_limit": {"currency_code": "USD", "amount": "5"},
    }
    async with console.http() as client:
        reply = await client.post("/v1/budgets", json={"budget": budget})
        assert reply.is_success, reply.text
    await person.sign_in("tenant-admin")
    await person.open("/budgets")
    card = person.page.locator("li.card").filter(has_text="launching")
    await card.get_by_role("button", name="Raise for a while").click()
    dialog = person.page.get_by_role("dialog")
    await dialog.get_by_label("Added to the limit").fill("20")
    await dialog.get_by_label("Reason").fill("the launch")
    await dialog.get_by_role("button", name="Save").click()
    await dialog.get_by_role("alert").get_by_text("end_time is unset").wait_for()
    later = datetime.now() + timedelta(days=3)
    await dialog.get_by_label("Until").fill(later.strftime("%Y-%m-%dT%H:%M"))
    await dialog.get_by_role("button", name="Save").click()
    await card.get_by_text("Raised by $20 until").wait_for()
    shown = await card.inner_text()
    assert "$25" in shown
    assert "the launch" in shown


async def test_an_auditor_reads_budgets_and_raises_none(
    person: Person, console: ConsoleUnderTest
) -> None:
    budget = {
        "id": "read-only",
        "scope": "BUDGET_SCOPE_TENANT",
        "window": "BUDGET_WINDOW_MONTH",
        "hard_limit": {"currency_code": "USD", "amount": "5"},
    }
    async with console.http() as client:
        reply = await client.post("/v1/budgets", json={"budget": budget})
        assert reply.is_success, reply.text
    await person.sign_in("auditor")
    await person.open("/budgets")
    card = person.page.locator("li.card").filter(has_text="read-only")
    await card.get_by_role("button", name="Windows so far").wait_for()
    assert not await card.get_by_role("button", name="Raise for a while").count()


async def test_an_auditor_sees_spending_by_hour_and_by_week(
    person: Person, console: ConsoleUnderTest
) -> None:
    await person.sign_in("auditor")
    await person.open("/spend")
    for bucket, asked in (("HOUR", "SPEND_DIMENSION_HOUR"), ("WEEK", "SPEND_DIMENSION_WEEK")):
        async with person.page.expect_response(re.compile(asked)) as answered:
            await person.page.get_by_label("Each bar").select_option(bucket)
        report = await (await answered.value).json()
        assert report["rows"][0]["values"][1] in {"calculator", "", console.ended}
        await person.page.wait_for_url(re.compile(f"bucket={bucket}"))
        await person.page.locator(".chart svg").first.wait_for()


async def test_an_auditor_compares_spending_with_one_models_price(
    person: Person, console: ConsoleUnderTest
) -> None:
    model = {
        "alias": "large",
        "model": "large-1",
        "api": "LLM_API_OPENAI_CHAT",
        "base_url": "https://models.example/v1",
        "sku": "own/compared",
    }
    tool = {
        "name": "compared_expert",
        "kind": "TOOL_KIND_LLM",
        "description": "Answers any question, at its price.",
        "side_effect": "SIDE_EFFECT_PURE",
        "parameters": {"type": "object", "properties": {}},
        "connection": {"llm": {"role": "LLM_ROLE_GENERALIST", "models": [model]}},
    }
    price = {
        "sku": "own/compared",
        "currency_code": "USD",
        "components": [{"dimension": "USAGE_DIMENSION_OUTPUT_TEXT", "unit_price": "1"}],
    }
    async with console.http() as client:
        for path, body in (("/v1/prices", {"specs": [price]}), ("/v1/tools", {"spec": tool})):
            reply = await client.post(path, json=body)
            assert reply.is_success, reply.text
        await finished(client, await console.start("What is 6 x 7?"))
    await person.sign_in("auditor")
    await person.open("/spend")
    part = person.page.get_by_role("region", name="Saved")
    assert await part.get_by_label("At the price of").input_value() == "compared_expert/large"
    await part.get_by_role("button", name="Compare").click()
    shown = await part.get_by_role("status").inner_text()
    assert "At the price of compared_expert/large" in shown
    assert "Spent on models" in shown
