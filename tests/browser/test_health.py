"""The page for those who run the platform: what is wrong, why, and what to do."""

from typing import Literal

import psutil
import pytest

from browser.conftest import ConsoleUnderTest, Person
from browser.test_console import faults_of
from browser.versions import WORSE

pytestmark = pytest.mark.browser
SERVICES = ("episodes", "tool-registry", "cost-ledger", "tool-adapters", "orchestrator-inference")


async def test_an_operator_sees_that_every_service_answers(person: Person) -> None:
    await person.sign_in("platform-admin")
    await person.page.get_by_role("link", name="Health").click()
    await person.sees("Everything answers")
    table = person.page.get_by_role("region", name="Services")
    for name in SERVICES:
        await table.get_by_role("row").filter(has_text=name).get_by_text("serving").wait_for()
    await person.sees("every record of the trajectory stream was published")
    await person.sees("No day is signed yet")


async def test_an_operator_reads_what_a_stalled_service_means_and_that_it_is_back(
    person: Person, console: ConsoleUnderTest
) -> None:
    await person.sign_in("platform-admin")
    stalled = psutil.Process(console.platform.processes["orchestrator_inference"].pid)
    stalled.suspend()
    try:
        await person.open("/health")
        await person.sees("1 thing is wrong")
        row = person.page.get_by_role("region", name="Services").get_by_role("row")
        unwell = row.filter(has_text="orchestrator-inference")
        for text in ("no answer", "Turns of models wait", "its log is the first to read"):
            await unwell.get_by_text(text).wait_for()
    finally:
        stalled.resume()
    await person.sees("Everything answers")


async def test_an_operator_reads_why_a_version_is_not_served(person: Person) -> None:
    await person.sign_in("platform-admin")
    await person.open("/health")
    row = person.page.get_by_role("region", name="Trained versions").get_by_role("row")
    cause = row.filter(has_text=WORSE)
    await cause.get_by_text("no engine serves it").wait_for()
    await cause.get_by_role("link", name=WORSE).click()
    await person.sees_heading(WORSE)


async def test_a_tenants_admin_is_not_shown_the_platform(person: Person) -> None:
    await person.sign_in("tenant-admin")
    assert await person.page.get_by_role("link", name="Health").count() == 0
    await person.open("/health")
    await person.sees("lacks the scope platform:admin")


@pytest.mark.parametrize("width", [360, 800, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_page_of_health_fits_its_width_and_is_accessible(
    person: Person, width: int, scheme: Literal["light", "dark"]
) -> None:
    await person.page.set_viewport_size({"width": width, "height": 820})
    await person.page.emulate_media(color_scheme=scheme)
    await person.sign_in("platform-admin")
    await person.open("/health")
    await person.page.get_by_role("table").nth(1).wait_for()
    assert not await faults_of(person, "health")
