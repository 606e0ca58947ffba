"""Money in the console: what a waiting call may cost, and where a budget will be at its end."""

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
