"""Pages that follow what happens: live updates, broken and slow connections, ended sessions."""

import asyncio
import re

import pytest

from browser.conftest import HELD_BACK, ConsoleUnderTest, Person
from e2e.episodes_over_http import finished

pytestmark = pytest.mark.browser


async def until_live(person: Person) -> None:
    """Opens the list of episodes, and waits until it follows the tenant's events."""
    async with person.page.expect_response(re.compile("/v1/events$")):
        await person.open("/episodes?range=day")
    await person.page.locator("a.row-open").first.wait_for()


async def test_new_episodes_wait_for_a_key_and_rows_change_in_place(
    person: Person, console: ConsoleUnderTest
) -> None:
    await person.sign_in("developer")
    await until_live(person)
    rows = person.page.locator("a.row-open")
    before = await rows.all_inner_texts()
    episode = await console.start("What is 6 x 7? Seen live.")
    await person.page.get_by_role("button", name=re.compile(r"^\d+ new")).wait_for()
    assert await rows.all_inner_texts() == before
    await person.page.keyboard.press(".")
    row = person.page.get_by_role("row").filter(has_text="Seen live.")
    await row.wait_for()
    async with console.http() as client:
        await finished(client, episode)
    await row.get_by_text("answered").wait_for()


async def test_an_approver_sees_a_call_come_and_go_without_asking_again(
    person: Person, console: ConsoleUnderTest
) -> None:
    await person.sign_in("approver")
    async with person.page.expect_response(re.compile("/v1/events$")):
        await person.open("/approvals")
    await person.page.locator("li.card").first.wait_for()
    episode = await console.start("Pay 6 x 7 dollars, live", policy="careful")
    card = person.page.locator("li.card").filter(has_text="dollars, live")
    await card.wait_for()
    async with console.http() as client:
        body = {"turn": 1, "call_index": 0, "approved": True}
        reply = await client.post(f"/v1/episodes/{episode}/approve", json=body)
        assert reply.is_success, reply.text
    await card.wait_for(state="detached")


async def test_after_an_outage_the_list_shows_what_it_missed(
    person: Person, console: ConsoleUnderTest
) -> None:
    await person.sign_in("developer")
    await until_live(person)
    await person.page.context.set_offline(True)
    await person.sees("The gateway does not answer")
    assert await person.page.locator("a.row-open").count() > 0
    async with console.http() as client:
        await finished(client, await console.start("What is 6 x 7? During an outage."))
    async with person.page.expect_request(re.compile("/v1/events$")) as resumed:
        await person.page.context.set_offline(False)
    assert (await (await resumed.value).all_headers())["last-event-id"]
    await person.page.get_by_role("button", name=re.compile(r"^\d+ new")).click()
    await person.sees("During an outage.")
    await person.page.get_by_role("alert").first.wait_for(state="detached")


async def test_without_the_stream_the_list_asks_again(
    person: Person, console: ConsoleUnderTest
) -> None:
    await person.sign_in("developer")
    await person.page.route("**/v1/events", lambda route: route.abort())
    await person.open("/episodes?range=day")
    await person.page.locator("a.row-open").first.wait_for()
    await console.start("What is 6 x 7? Asked again.")
    await person.page.get_by_role("button", name=re.compile(r"^\d+ new")).click()
    await person.sees("Asked again.")


async def test_a_slow_network_shows_the_frame_of_the_list_and_then_its_rows(
    person: Person,
) -> None:
    await person.sign_in("developer")
    held = asyncio.Event()

    async def slowly(route: object) -> None:
        await held.wait()
        await route.continue_()  # type: ignore[attr-defined]

    await person.page.route("**/v1/episodes?*", slowly)
    devtools = await person.page.context.new_cdp_session(person.page)
    conditions = {"offline": False, "latency": 400, "downloadThroughput": 50_000}
    await devtools.send(
        "Network.emulateNetworkConditions", {**conditions, "uploadThroughput": 20_000}
    )
    await person.open("/episodes")
    await person.page.get_by_role("status", name="Loading").first.wait_for()
    await person.sees_heading("Episodes")
    held.set()
    await person.page.locator("a.row-open").first.wait_for()
    await person.page.get_by_role("status", name="Loading").first.wait_for(state="detached")


async def test_a_key_that_is_revoked_ends_the_session_of_its_page(
    person: Person, console: ConsoleUnderTest
) -> None:
    async with console.http() as admin:
        body = {"subject": "mallory", "roles": ["developer"]}
        created = (await admin.post("/v1/api-keys", json=body)).json()
        await person.open("")
        await person.page.get_by_label("API key").fill(created["key"])
        await person.page.get_by_role("button", name="Sign in").click()
        await person.page.get_by_role("navigation", name="Podium").wait_for()
        await admin.post(f"/v1/api-keys/{created['api_key']['id']}/revoke")
    await person.open("/spend")
    await person.page.get_by_label("API key").wait_for()


async def test_a_developer_reads_an_answer_while_it_is_written(
    person: Person, console: ConsoleUnderTest
) -> None:
    await person.sign_in("developer")
    console.gate.clear()
    try:
        episode = await console.start(f"What is 6 x 7? {HELD_BACK}", stream_answer=True)
        await person.open(f"/episodes/{episode}")
        answer = person.page.locator("p.answer")
        await answer.filter(has_text=re.compile("^42$")).wait_for()
    finally:
        console.gate.set()
    await answer.filter(has_text="onerror").wait_for()
