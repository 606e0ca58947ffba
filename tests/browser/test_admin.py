"""Tasks of tenant admins, tool owners and auditors besides episodes and money."""

import re
from pathlib import Path

import pytest

from browser.conftest import HOSTILE, ConsoleUnderTest, Person
from browser.test_hostile import unharmed

pytestmark = pytest.mark.browser

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


async def test_an_admin_stores_rotates_and_deletes_a_secret_that_is_shown_nowhere(
    person: Person,
) -> None:
    await person.sign_in("tenant-admin")
    await person.open("/secrets")
    await person.page.get_by_role("button", name="Store secret").click()
    dialog = person.page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("no name")
    await dialog.get_by_label("Value").fill("first-value-of-it")
    await dialog.get_by_role("button", name="Store", exact=True).click()
    await dialog.get_by_role("alert").wait_for()
    await dialog.get_by_label("Name").fill("crm-key")
    await dialog.get_by_role("button", name="Store", exact=True).click()
    row = person.page.get_by_role("row").filter(has_text="secret://crm-key")
    await row.get_by_role("cell", name="1", exact=True).wait_for()
    await row.get_by_role("button", name="Rotate").click()
    await dialog.get_by_label("Value").fill("second-value-of-it")
    await dialog.get_by_role("button", name="Store", exact=True).click()
    await row.get_by_role("cell", name="2", exact=True).wait_for()
    page = await person.page.content()
    assert "first-value-of-it" not in page and "second-value-of-it" not in page
    await row.get_by_role("button", name="Delete").click()
    await dialog.get_by_role("button", name="Delete").click()
    await row.wait_for(state="detached")


async def test_a_tool_owner_reads_names_of_secrets_and_changes_none(
    person: Person, console: ConsoleUnderTest
) -> None:
    async with console.http() as admin:
        assert (await admin.put("/v1/secrets/shown", json={"value": "hidden-value"})).is_success
    await person.sign_in("tool-owner")
    await person.open("/secrets")
    await person.sees("secret://shown")
    assert await person.page.get_by_role("button", name="Store secret").count() == 0
    assert await person.page.get_by_role("button", name="Delete").count() == 0
    assert "hidden-value" not in await person.page.content()


async def test_an_admin_adds_a_webhook_and_sees_why_its_delivery_fails(
    person: Person, console: ConsoleUnderTest
) -> None:
    async with console.http() as admin:
        assert (await admin.put("/v1/secrets/hooks", json={"value": SECRET})).is_success
    await person.sign_in("tenant-admin")
    await person.open("/webhooks")
    await person.page.get_by_role("button", name="Add webhook").click()
    dialog = person.page.get_by_role("dialog")
    await dialog.get_by_label("Id").fill("orders")
    await dialog.get_by_label("URL").fill("http://127.0.0.1:1/hook?<img src=x>")
    await dialog.get_by_label("Name of the secret").fill("hooks")
    await dialog.get_by_text("episode ended").click()
    await dialog.get_by_role("button", name="Add", exact=True).click()
    await person.page.get_by_role("row").filter(has_text="orders").first.wait_for()
    await console.start("What is 6 x 7? For a webhook.")
    deliveries = person.page.get_by_role("region", name="Deliveries").last
    failed = deliveries.get_by_role("row").filter(has_text="orders")
    await failed.get_by_role("button", name="episode ended").first.click()
    await dialog.get_by_text("episode.ended").first.wait_for()
    await dialog.locator("p.error").wait_for()
    await unharmed(person)
    await dialog.get_by_role("button", name="Close").click()
    await failed.get_by_role("button", name="Send again").first.click()
    await (
        person.page.get_by_role("row")
        .filter(has_text="127.0.0.1")
        .get_by_role("button", name="Delete")
        .click()
    )
    await dialog.get_by_role("button", name="Delete").click()
    await person.sees("No webhook")


async def test_an_admin_reads_limits_and_which_role_allows_what(person: Person) -> None:
    await person.sign_in("tenant-admin")
    await person.open("/limits")
    row = person.page.get_by_role("row").filter(has_text="Running episodes")
    assert re.search(r"\d", await row.inner_text())
    await person.open("/keys")
    roles = person.page.get_by_role("region", name="Roles").last
    auditor = roles.get_by_role("row").filter(has_text="auditor").first
    assert "audit:read" in await auditor.inner_text()
    await auditor.get_by_text("auditor-ada").wait_for()


async def test_an_operator_changes_the_limits_of_a_tenant_and_takes_them_back(
    person: Person,
) -> None:
    await person.sign_in("platform-admin")
    await person.open("/limits")
    await person.page.get_by_label("Tenant").fill("guests")
    await person.page.get_by_role("button", name="Show").click()
    await person.sees_heading("Limits of guests")
    running = person.page.get_by_label("Running episodes")
    default = await running.input_value()
    assert default != "7"
    await running.fill("many")
    await person.page.get_by_role("button", name="Save limits").click()
    await person.page.get_by_role("alert").filter(has_text="running_episodes").wait_for()
    await running.fill("7")
    await person.page.get_by_role("button", name="Save limits").click()
    await person.page.get_by_role("alert").wait_for(state="detached")
    await person.page.reload()
    await person.page.get_by_label("Tenant").fill("guests")
    await person.page.get_by_role("button", name="Show").click()
    await person.sees_heading("Limits of guests")
    await person.finds_in("Running episodes", "7")
    await person.page.get_by_role("button", name="Back to the defaults").click()
    await person.finds_in("Running episodes", default)


async def test_an_auditor_reads_which_scope_secrets_and_webhooks_need(person: Person) -> None:
    await person.sign_in("auditor")
    for path in ("/secrets", "/webhooks"):
        await person.open(path)
        await person.sees("lacks the scope")


async def test_a_tool_owner_uploads_documents_and_sees_what_is_wrong_with_one(
    person: Person, tmp_path: Path
) -> None:
    whale = f"# Whales\n\nThe blue whale weighs 150 tonnes. {HOSTILE}"
    files = {"whale.md": whale, "broken.pdf": "no pdf at all", "tool.exe": "MZ"}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    await person.sign_in("tool-owner")
    await person.open("/corpora")
    await person.page.get_by_role("button", name="Upload documents").click()
    dialog = person.page.get_by_role("dialog")
    await dialog.get_by_label("Corpus").fill("handbook")
    await dialog.get_by_label("Files").set_input_files([tmp_path / name for name in files])
    await dialog.get_by_role("button", name="Upload 3 files").click()
    await dialog.get_by_text("3 of 3 done, 2 failed").wait_for()
    outcomes = dialog.get_by_role("listitem")
    assert "stored" in await outcomes.filter(has_text="whale.md").inner_text()
    assert "failed" in await outcomes.filter(has_text="broken.pdf").inner_text()
    assert "ending" in await outcomes.filter(has_text="tool.exe").inner_text()
    await dialog.get_by_role("button", name="Close").click()
    await person.page.get_by_label("Words to look for").fill("blue whale weight")
    await person.page.get_by_role("button", name="Search", exact=True).click()
    hit = person.page.locator("blockquote").first
    await hit.get_by_text("150 tonnes").wait_for()
    citation = await hit.locator("footer").inner_text()
    assert "whale.md" in citation and "Whales" in citation
    await unharmed(person)
    documents = person.page.get_by_role("region", name="Documents").last
    await documents.get_by_role("button", name="Delete", exact=True).first.click()
    await dialog.get_by_role("button", name="Delete").click()
    await documents.get_by_text("whale.md").wait_for(state="detached")
    await person.page.get_by_role("button", name="Delete corpus").click()
    await dialog.get_by_role("button", name="Delete").click()
    await person.page.get_by_role("button", name="handbook").wait_for(state="detached")


async def test_a_developer_searches_a_corpus_and_may_not_change_it(
    person: Person, console: ConsoleUnderTest
) -> None:
    content = f"Opening hours: 9 to 5. {HOSTILE}"
    document = {"id": "hours", "title": f"Hours {HOSTILE}", "content": content}
    async with console.http("tool-owner") as owner:
        reply = await owner.put("/v1/corpora/desk/documents", json={"documents": [document]})
        assert reply.is_success, reply.text
    await person.sign_in("developer")
    await person.open("/corpora")
    await person.page.get_by_role("button", name="desk").click()
    await person.sees("Hours <img src=x")
    await person.page.get_by_label("Words to look for").fill("opening hours")
    await person.page.get_by_role("button", name="Search", exact=True).click()
    await person.page.locator("blockquote").get_by_text("9 to 5").wait_for()
    assert await person.page.get_by_role("button", name="Delete corpus").count() == 0
    assert await person.page.get_by_role("button", name="Upload documents").count() == 0
    await unharmed(person)


async def test_a_developer_saves_a_view_and_another_person_opens_the_shared_one(
    person: Person, console: ConsoleUnderTest
) -> None:
    name = f"Costly {HOSTILE}"[:80]
    await person.sign_in("developer")
    await person.open("/episodes?sort=cost&range=month")
    await person.page.get_by_role("button", name="Save this view").click()
    dialog = person.page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill(name)
    await dialog.get_by_text("Everybody in the tenant").click()
    await dialog.get_by_role("button", name="Save", exact=True).click()
    views = person.page.get_by_role("navigation", name="Views")
    await views.get_by_role("link", name="Costly").wait_for()
    await unharmed(person)
    async with console.http("auditor") as auditor:
        [view] = (await auditor.get("/v1/views")).json()["views"]
    assert (view["name"], view["query"]) == (name, "range=month&sort=cost")
    await person.open("/episodes")
    await views.get_by_role("link", name="Costly").click()
    await person.page.wait_for_url(re.compile("sort=cost"))
    await views.get_by_role("button", name="Delete").click()
    await views.get_by_role("link", name="Costly").wait_for(state="detached")
