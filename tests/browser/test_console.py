"""Tasks of each role in the console, from the sign-in to the result."""

import re
from typing import Literal

import pytest
from axe_playwright_python.async_playwright import Axe

from browser.conftest import ROLES, ConsoleUnderTest, Person
from e2e.episodes_over_http import finished

pytestmark = pytest.mark.browser

SCREENS = {
    "developer": {"Episodes", "Tools", "Policies", "Corpora", "Spend", "Budgets"},
    "approver": {"Episodes", "Approvals", "Tools", "Policies"},
    "auditor": {"Episodes", "Tools", "Policies", "Spend", "Budgets", "Ledger", "Change log"},
    "tool-owner": {"Episodes", "Tools", "Policies", "Corpora"},
    "tenant-admin": {"Episodes", "Approvals", "Access", "Spend", "Ledger", "Change log", "Keys"},
    "ml-engineer": {"Episodes", "Evaluations", "Spend", "Training", "Versions"},
    "platform-admin": {"Episodes", "Versions", "Keys"},
}
SCREEN_PATHS = (
    "/episodes",
    "/episodes/{ended}",
    "/episodes/compare?ids={ended}",
    "/approvals",
    "/tools",
    "/tools/calculator",
    "/policies/careful",
    "/policy-editor?name=careful",
    "/access",
    "/tool-import",
    "/corpora",
    "/evaluations",
    "/spend",
    "/budgets",
    "/ledger",
    "/changes",
    "/keys",
    "/webhooks",
    "/limits",
    "/secrets",
)


@pytest.mark.parametrize("role", ROLES)
async def test_the_navigation_has_what_the_role_may_use(person: Person, role: str) -> None:
    await person.sign_in(role)
    links = (
        await person.page.get_by_role("navigation", name="Podium")
        .get_by_role("link")
        .all_inner_texts()
    )
    shown = {re.sub(r"\d+$", "", link).strip() for link in links}
    assert shown >= SCREENS[role]
    assert ("Keys" in shown) == (role in {"tenant-admin", "platform-admin"})
    assert ("Versions" in shown) == (role in {"ml-engineer", "platform-admin"})
    assert ("Approvals" in shown) == (role in {"approver", "tenant-admin", "platform-admin"})


async def test_a_wrong_key_is_answered_with_what_to_do(person: Person) -> None:
    await person.open("")
    await person.page.get_by_label("API key").fill("pod_wrong")
    await person.page.get_by_role("button", name="Sign in").click()
    await person.sees("check that it was copied whole")


@pytest.mark.quick
async def test_no_script_reads_the_credential_and_signing_out_ends_it(person: Person) -> None:
    await person.sign_in("developer")
    readable = await person.page.evaluate(
        "() => document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)"
    )
    assert "pod_" not in readable
    assert "__Host" not in readable
    await person.page.get_by_role("button", name="Sign out").click()
    await person.page.get_by_label("API key").wait_for()
    await person.open("/episodes")
    await person.page.get_by_label("API key").wait_for()


@pytest.mark.quick
async def test_a_developer_starts_an_episode_and_reads_its_answer(person: Person) -> None:
    await person.sign_in("developer")
    await person.page.get_by_role("button", name="New episode").click()
    await person.page.get_by_label("Task", exact=True).fill("What is 6 x 7? From the console.")
    await person.page.get_by_role("button", name="Start", exact=True).click()
    await person.sees_heading("What is 6 x 7? From the console.")
    await person.sees("answered")
    answer = person.page.locator("p.answer").first
    await answer.wait_for()
    assert "42" in await answer.inner_text()


@pytest.mark.quick
async def test_what_users_tools_and_models_write_never_becomes_markup(person: Person) -> None:
    await person.sign_in("developer")
    await person.open("/episodes")
    await person.sees("<img src=x")
    await person.open(f"/episodes/{person.console.ended}")
    await person.sees("42 <img src=x")
    await person.page.get_by_role("button", name=re.compile("Model decides")).first.click()
    await person.sees("I will compute it. <img")
    assert await person.page.title() != "owned"
    assert await person.page.locator("img[src=x]").count() == 0


async def test_a_developer_sees_where_time_and_money_went(person: Person) -> None:
    await person.sign_in("developer")
    await person.open(f"/episodes/{person.console.ended}")
    step = person.page.get_by_role("button", name=re.compile("calculator"))
    await step.first.click()
    await person.sees_heading("calculator")
    await person.page.get_by_role("button", name="Money").click()
    await person.sees("$")
    await person.page.get_by_role("tab", name="Ledger").click()
    await person.page.get_by_role("table").get_by_text("capture").first.wait_for()
    await person.page.get_by_role("tab", name="Why").click()
    await person.page.get_by_role("table").get_by_text("calculator").first.wait_for()


async def test_filters_are_in_the_address_and_narrow_the_list(person: Person) -> None:
    await person.sign_in("developer")
    await person.open("/episodes?words=Try+2")
    rows = person.page.locator("a.row-open")
    await rows.first.wait_for()
    assert await rows.count() == 1
    await person.open("/episodes?words=nowhere")
    await person.sees("No episode matches")
    await person.open("/episodes")
    await person.page.get_by_role("button", name=re.compile("^calculator")).click()
    await person.page.wait_for_url(re.compile("tool_names=calculator"))
    await person.sees("Tool: calculator")
    await person.page.get_by_label("Sort").select_option("cost")
    await person.page.wait_for_url(re.compile("sort=cost"))
    await rows.first.wait_for()


async def test_the_keyboard_alone_opens_an_episode(person: Person) -> None:
    await person.sign_in("developer")
    await person.open("/spend")
    await person.sees_heading("Spend")
    await person.page.keyboard.press("g")
    await person.page.keyboard.press("e")
    await person.page.locator("a.row-open").first.wait_for()
    await person.page.locator(".rows-scroll").focus()
    await person.page.keyboard.press("j")
    await person.page.keyboard.press("Enter")
    await person.page.wait_for_url(re.compile(r"/episodes/[0-9a-f-]{36}"))


async def test_the_palette_finds_a_page_and_a_tool(person: Person) -> None:
    await person.sign_in("developer")
    for typed, address in (("calculator", "/tools/calculator"), ("Budg", "/budgets")):
        await person.page.keyboard.press("Control+k")
        field = person.page.get_by_role("dialog").get_by_role("textbox")
        await field.fill(typed)
        await person.page.get_by_role("menuitem").first.wait_for()
        await person.page.keyboard.press("ArrowDown")
        await person.page.keyboard.press("Enter")
        await person.page.wait_for_url(re.compile(f"{address}$"))


@pytest.mark.quick
async def test_an_auditor_sees_structure_and_cost_but_no_content(person: Person) -> None:
    await person.sign_in("auditor")
    await person.open("/episodes")
    await person.sees("Content is not shown")
    await person.open(f"/episodes/{person.console.ended}")
    await person.sees("trajectories:read")
    assert "6 x 7" not in await person.page.locator("main").inner_text()


async def test_an_auditor_verifies_the_ledger_and_reads_the_change_log(person: Person) -> None:
    await person.sign_in("auditor")
    await person.open("/ledger")
    await person.page.get_by_role("button", name="Verify the ledger").click()
    await person.sees("verified, no finding")
    await person.open("/changes?action=CreateApiKey")
    await person.page.get_by_role("row").get_by_text("CreateApiKey").first.wait_for()
    await person.page.locator("button.row-link").first.click()
    await person.sees_heading("CreateApiKey")


async def test_an_auditor_sees_what_was_spent_by_tool_and_by_user(person: Person) -> None:
    await person.sign_in("auditor")
    await person.open("/spend")
    await person.page.get_by_role("row").get_by_text("calculator").wait_for()
    await person.page.get_by_label("Group by").select_option("USER")
    await person.page.get_by_role("row").get_by_text("developer-ada").wait_for()


async def test_an_approver_denies_a_call_with_a_reason(
    person: Person, console: ConsoleUnderTest
) -> None:
    denied = await console.start("Pay 6 x 7 dollars twice", policy="careful")
    await person.sign_in("approver")
    await person.open("/approvals")
    cards = person.page.locator("li.card")
    link = person.page.locator(f'a[href$="{denied}"]')
    card = cards.filter(has=link)
    await card.get_by_label("Reason").fill("too expensive")
    await card.get_by_role("button", name="Deny").click()
    async with console.http() as client:
        await finished(client, denied)
    await card.wait_for(state="detached")


async def test_an_approval_can_be_undone_before_it_is_sent(person: Person) -> None:
    await person.sign_in("approver")
    await person.open("/approvals")
    link = person.page.locator(f'a[href$="{person.console.waiting}"]')
    card = person.page.locator("li.card").filter(has=link)
    await card.get_by_role("button", name="Approve").click()
    await card.get_by_role("button", name="Undo").click()
    await card.get_by_role("button", name="Approve").wait_for()
    await person.page.reload()
    await card.wait_for()


async def test_an_approver_lets_a_call_be_made(person: Person, console: ConsoleUnderTest) -> None:
    approved = await console.start("Pay 6 x 7 dollars thrice", policy="careful")
    await person.sign_in("approver")
    await person.open("/approvals")
    link = person.page.locator(f'a[href$="{approved}"]')
    await (
        person.page.locator("li.card")
        .filter(has=link)
        .get_by_role("button", name="Approve")
        .click()
    )
    async with console.http() as client:
        assert "42" in (await finished(client, approved))["answer"]


async def test_a_tool_owner_finds_a_tool_with_its_schema_and_versions(person: Person) -> None:
    await person.sign_in("tool-owner")
    await person.open("/tools")
    await person.page.get_by_label("Name or description").fill("arithmetic")
    await person.page.get_by_role("button", name="calculator").click()
    await person.page.wait_for_url(re.compile("/tools/calculator"))
    await person.sees_heading("calculator")
    await person.sees('"expression"')


async def test_anyone_reads_which_rule_allows_a_tool(person: Person) -> None:
    await person.sign_in("tool-owner")
    await person.open("/policies")
    await person.page.get_by_role("button", name="careful").click()
    explained = person.page.get_by_role("region", name="Tools under this policy")
    await explained.get_by_text("calculator").first.wait_for()


async def test_an_admin_creates_a_key_once_and_revokes_it(person: Person) -> None:
    await person.sign_in("tenant-admin")
    await person.open("/keys")
    await person.page.get_by_role("button", name="Create key").click()
    dialog = person.page.get_by_role("dialog")
    await dialog.get_by_label("Whose key").fill("grace")
    await dialog.get_by_role("button", name="Create key").click()
    await dialog.get_by_text("pod_").wait_for()
    await dialog.get_by_role("button", name="Close").click()
    row = person.page.get_by_role("row").filter(has_text="grace")
    await row.get_by_role("button", name="Revoke").click()
    await row.get_by_text("revoked").wait_for()


async def test_an_admin_changes_the_limit_of_a_budget(
    person: Person, console: ConsoleUnderTest
) -> None:
    budget = {
        "id": "console",
        "scope": "BUDGET_SCOPE_TENANT",
        "window": "BUDGET_WINDOW_DAY",
        "hard_limit": {"currency_code": "USD", "amount": "5"},
    }
    async with console.http() as client:
        reply = await client.post("/v1/budgets", json={"budget": budget})
        assert reply.is_success, reply.text
    await person.sign_in("tenant-admin")
    await person.open("/budgets")
    card = person.page.locator("li.card").filter(has_text="console")
    await card.get_by_role("button", name="Change limit").click()
    dialog = person.page.get_by_role("dialog")
    await dialog.get_by_label("New limit").fill("not money")
    await dialog.get_by_role("button", name="Save").click()
    await dialog.get_by_role("alert").wait_for()
    await dialog.get_by_label("New limit").fill("7.5")
    await dialog.get_by_role("button", name="Save").click()
    await card.get_by_text("$7.5").first.wait_for()


async def test_a_page_that_the_role_may_not_use_says_who_grants_it(person: Person) -> None:
    await person.sign_in("developer")
    await person.open("/keys")
    await person.sees("lacks the scope tenant:admin")


async def test_an_unknown_page_and_an_unknown_episode_are_named(person: Person) -> None:
    await person.sign_in("developer")
    await person.open("/nowhere")
    await person.sees("There is no such page")
    await person.open("/episodes/01890000-0000-7000-8000-000000000000")
    await person.sees("there is no episode")


async def test_a_gateway_that_is_away_is_named_and_the_rows_stay(person: Person) -> None:
    await person.sign_in("developer")
    await person.open("/episodes")
    await person.page.locator("a.row-open").first.wait_for()
    await person.page.context.set_offline(True)
    await person.sees("The gateway does not answer")
    assert await person.page.locator("a.row-open").count() > 0
    await person.page.context.set_offline(False)
    await person.page.get_by_role("alert").first.wait_for(state="detached", timeout=60_000)


@pytest.mark.parametrize("width", [360, 800, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_screen_fits_its_width_and_is_accessible(
    person: Person, width: int, scheme: Literal["light", "dark"]
) -> None:
    await person.page.set_viewport_size({"width": width, "height": 820})
    await person.page.emulate_media(color_scheme=scheme)
    await person.open("")
    await person.page.get_by_label("API key").wait_for()
    faults = await faults_of(person, "sign-in")
    await person.sign_in("tenant-admin")
    for path in SCREEN_PATHS:
        await person.open(path.format(ended=person.console.ended))
        await person.page.locator("h1").first.wait_for(timeout=60_000)
        await person.page.locator(".skeleton").first.wait_for(state="detached", timeout=60_000)
        faults += await faults_of(person, path)
    assert not faults


async def faults_of(person: Person, path: str) -> list[str]:
    """Returns what axe finds, and whether the page is wider than its window."""
    found = await Axe().run(person.page)
    faults = [
        f"{path}: {each['id']} at {each['nodes'][0]['target']}: {each['nodes'][0]['html'][:160]}"
        for each in found.response["violations"]
    ]
    overflow = await person.page.evaluate(
        "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return [*faults, *([f"{path}: {overflow} px too wide"] if overflow > 0 else [])]
