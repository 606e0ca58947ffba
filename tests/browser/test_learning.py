"""Training in the console: versions, how they were learnt, and what is learnt in production."""

import re
from typing import Literal

import pytest

from browser.conftest import HOSTILE, ConsoleUnderTest, Person
from browser.test_console import faults_of
from browser.versions import CANDIDATE, FIRST, PROMOTED, WORSE, promoted
from e2e.episodes_over_http import new_id

pytestmark = pytest.mark.browser

POLICY = "learnt"


async def test_an_ml_engineer_reads_how_a_version_was_learnt(person: Person) -> None:
    await person.sign_in("ml-engineer")
    await person.open("/versions")
    await person.page.get_by_role("button", name=CANDIDATE).click()
    await person.page.get_by_role("tab", name="Training").click()
    figure = person.page.get_by_role("figure", name="Solved")
    await figure.get_by_text("13 % to 75 %").wait_for()
    mix = person.page.get_by_role("figure", name="Tool calls an episode")
    await mix.get_by_text("calculator: 2").wait_for()
    await mix.get_by_text(HOSTILE[:10]).wait_for()
    await person.page.get_by_text("All 6 steps as a table").click()
    rows = person.page.get_by_role("region", name="Steps").get_by_role("row")
    assert await rows.count() == 7
    assert await person.page.title() != "owned"
    assert await person.page.locator("img[src=x]").count() == 0


async def test_an_ml_engineer_reads_why_the_gate_decided_and_promotes_nothing(
    person: Person,
) -> None:
    await person.sign_in("ml-engineer")
    await person.open(f"/versions/{WORSE}")
    await person.sees(f"Compared with {PROMOTED} on 40 episodes")
    await person.sees("score may be 0.25 worse, at most 0.02")
    gains = person.page.get_by_role("region", name="Gains")
    await gains.get_by_text("-0.250 … -0.250").wait_for()
    await gains.get_by_role("img", name="-0.250, between -0.250 and -0.250").wait_for()
    figures = person.page.get_by_role("region", name="Figures of both")
    await figures.get_by_text("0.01").first.wait_for()
    await person.sees("An admin of the platform promotes versions")
    assert await person.page.get_by_role("button", name="Promote").count() == 0


async def test_an_operator_sees_what_a_promotion_still_needs(person: Person) -> None:
    await person.sign_in("platform-admin")
    await person.open(f"/versions/{WORSE}")
    await person.sees("an engine must serve it")
    await person.sees("the gate must have let it through")
    assert await person.page.get_by_role("button", name="Promote").is_disabled()


async def test_an_operator_rolls_a_version_back_after_a_question(
    person: Person, console: ConsoleUnderTest
) -> None:
    with promoted(console.store):
        await roll_back(person)


async def roll_back(person: Person) -> None:
    await person.sign_in("platform-admin")
    await person.open("/versions")
    await person.sees(f"Users get {PROMOTED}")
    await person.page.get_by_role("button", name=PROMOTED).click()
    await person.page.get_by_role("button", name="Roll back").click()
    dialog = person.page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Cancel").click()
    await person.page.get_by_role("button", name="Roll back").click()
    await dialog.get_by_role("button", name="Roll back").click()
    await dialog.wait_for(state="detached")
    row = person.page.get_by_role("row").filter(has_text=FIRST)
    await row.get_by_text("promoted").wait_for()


async def learnt_policy(console: ConsoleUnderTest) -> str:
    """Stores a policy whose cycle has promoted a version; the cycle's id."""
    cycle = new_id()
    spec = {"name": POLICY, "training_consent": True, "unknown_price": "UNKNOWN_PRICE_RULE_ADMIT"}
    stages = (
        ("COLLECTED", "", "60 past tasks to learn from, 30 to measure on", {"learnt_from": "60"}),
        ("GATED", CANDIDATE, f"score +0.250; better {HOSTILE}", {"verdict": "promote"}),
        ("PROMOTED", CANDIDATE, f"{CANDIDATE} answers policy learnt", {"before": ""}),
    )
    async with console.http() as client:
        replies = [await client.post("/v1/policies", json={"spec": spec})]
        for stage, model, summary, facts in stages:
            step = {
                "policy": POLICY,
                "cycle": cycle,
                "stage": f"LEARNING_STAGE_{stage}",
                "model": model,
                "summary": summary,
                "facts": facts,
            }
            replies.append(await client.post("/v1/learning-steps", json={"step": step}))
        assert all(reply.is_success for reply in replies), [reply.text for reply in replies]
    return cycle


async def test_an_admin_pauses_learning_and_takes_a_promotion_back(
    person: Person, console: ConsoleUnderTest
) -> None:
    cycle = await learnt_policy(console)
    await person.sign_in("tenant-admin")
    await person.open(f"/training?policy={POLICY}")
    facts = person.page.locator("dl.facts").first
    await facts.get_by_text(CANDIDATE).wait_for()
    await person.page.get_by_role("button", name="Pause learning").click()
    dialog = person.page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Pause learning").click()
    await facts.get_by_text("paused").wait_for()
    await person.page.get_by_role("button", name="Take the promotion back").click()
    await dialog.get_by_role("button", name="Take the promotion back").click()
    await facts.get_by_text("the platform's default model").wait_for()
    rows = person.page.get_by_role("region", name="Cycles")
    await rows.get_by_text("rolled back").wait_for()
    async with console.http() as client:
        reply = await client.get("/v1/learning-steps", params={"policy": POLICY})
        newest = reply.json()["steps"][0]
    assert (newest["cycle"], newest["stage"]) == (cycle, "LEARNING_STAGE_ROLLED_BACK")


async def test_an_ml_engineer_follows_a_cycle_and_changes_nothing(
    person: Person, console: ConsoleUnderTest
) -> None:
    await learnt_policy(console)
    await person.sign_in("ml-engineer")
    await person.open(f"/training?policy={POLICY}")
    rows = person.page.get_by_role("region", name="Cycles")
    await rows.get_by_text("60 past tasks to learn from").first.wait_for()
    await rows.get_by_text(HOSTILE[:10]).first.wait_for()
    await person.sees("An admin of the tenant pauses learning")
    await rows.get_by_role("link", name=CANDIDATE).first.click()
    await person.page.wait_for_url(re.compile(f"/versions/{CANDIDATE}"))
    assert await person.page.title() != "owned"


@pytest.mark.parametrize("width", [360, 800, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_pages_of_learning_fit_their_width_and_are_accessible(
    person: Person, console: ConsoleUnderTest, width: int, scheme: Literal["light", "dark"]
) -> None:
    await learnt_policy(console)
    await person.page.set_viewport_size({"width": width, "height": 820})
    await person.page.emulate_media(color_scheme=scheme)
    await person.sign_in("ml-engineer")
    faults = []
    for path in (f"/training?policy={POLICY}", "/versions", f"/versions/{WORSE}"):
        await person.open(path)
        await person.page.get_by_role("table").first.wait_for()
        faults += await faults_of(person, path)
    await person.page.get_by_role("tab", name="Training").click()
    await person.page.get_by_role("figure").first.wait_for()
    faults += await faults_of(person, "curves")
    assert not faults
