"""Evaluations in the console: runs, their figures, and the pages that the command writes."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any, Literal

import pytest

from browser.conftest import HOSTILE, ConsoleUnderTest, Person
from browser.test_console import faults_of
from e2e.episodes_over_http import new_id
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium_cli.demo.report import report_of as demo_report
from podium_cli.evaluations.figures import Failure, report_of, without_content
from podium_cli.report_pages import write_report_page
from podium_evaluation.results.failures import FailureClass
from podium_evaluation.results.trials import Results
from unit.podium_cli.test_demo import make_accounts, make_outcome
from unit.podium_evaluation.trial_results import trial

pytestmark = pytest.mark.browser

# A rule has no tokens of its own, which would need a price.
ARM = {"name": "only", "model": "rule/cheapest"}


async def played(console: ConsoleUnderTest, suite: str, **changes: Any) -> str:
    """A run of two items, of which one was played and judged wrong; its id."""
    run = new_id()
    check = {"verifier": "numeric", "parameters_json": '{"expected": 43}'}
    items = [{"id": f"item-{n}", "question": f"Six {n}? {HOSTILE}", "check": check} for n in "12"]
    evaluation = {"id": run, "suite": suite, "arms": [ARM], **changes}
    async with console.http("ml-engineer") as client:
        body = {"evaluation": evaluation, "items": items}
        reply = await client.post("/v1/evaluations", json=body)
        assert reply.is_success, reply.text
        path = f"/v1/evaluations/{run}/trials"
        first = (await client.get(path, params={"with_items": True})).json()["trials"][0]
        spec = {"task": first["item"]["question"], "tool_names": ["calculator"], "check": check}
        body = {"episode_id": first["episode_id"], "spec": spec}
        reply = await client.post("/v1/episodes", json=body)
        assert reply.is_success, reply.text
        while (await client.get(path)).json()["trials"][0]["state"] != "TRIAL_STATE_JUDGED":
            await asyncio.sleep(0.2)
    return run


def figures(run: str) -> dict[str, Any]:
    """The document that podium eval report computes of a run of two arms."""
    arms = [pb.EvaluationArm(name=name) for name in ("cheap", f"strong {HOSTILE[:9]}")]
    stored = pb.Evaluation(id=run, suite=f"sums {HOSTILE}", arms=arms, repeats=1)
    trials = [
        trial(arm.name, f"item {item}", float(item % (place + 2) == 0), question=HOSTILE)
        for place, arm in enumerate(arms)
        for item in range(12)
    ]
    failures = [
        Failure(each, FailureClass.WRONG_TOOL, HOSTILE, [f"calculator -> {HOSTILE}"])
        for each in trials
        if not each.score
    ]
    progress = [pb.ArmProgress(arm=arm.name) for arm in arms]
    return report_of(Results(stored, progress, trials), failures, "http://127.0.0.1:1")


async def test_an_ml_engineer_reads_a_run_before_its_figures_were_computed(
    person: Person, console: ConsoleUnderTest
) -> None:
    run = await played(console, f"suite {HOSTILE}")
    await person.sign_in("ml-engineer")
    await person.open("/evaluations")
    link = person.page.locator(f'a[href$="{run}"]')
    await link.click()
    await person.page.get_by_role("region", name="Progress").get_by_text("1 / 2").wait_for()
    await person.sees(f"podium eval report {run}")
    worst = person.page.get_by_role("region", name="Worst items")
    await worst.get_by_text("item-1").wait_for()
    await worst.get_by_role("link", name="episode").click()
    await person.page.wait_for_url(re.compile("/episodes/"))
    await person.sees_heading("Six 1?")
    assert await person.page.title() != "owned"


async def test_an_ml_engineer_reads_the_figures_that_the_command_stored(
    person: Person, console: ConsoleUnderTest
) -> None:
    run = await played(console, "with figures")
    async with console.http("ml-engineer") as client:
        body = {"report_json": json.dumps(without_content(figures(run)))}
        reply = await client.put(f"/v1/evaluations/{run}/report", json=body)
        assert reply.is_success, reply.text
    await person.sign_in("ml-engineer")
    await person.open(f"/evaluations/{run}")
    await person.page.get_by_role("region", name="Arms").get_by_text("0.500").first.wait_for()
    for title in ("Cost against accuracy", "Pairs", "What the arms call", "Under seven budgets"):
        await person.sees_heading(title)
    await person.page.get_by_role("figure", name="Under seven budgets").wait_for()
    await (
        person.page.get_by_role("region", name="Worst items").get_by_text("item 1").first.wait_for()
    )
    assert await person.page.title() != "owned"
    assert await person.page.locator("img[src=x]").count() == 0


async def test_an_ml_engineer_compares_two_runs(person: Person, console: ConsoleUnderTest) -> None:
    one, other = await played(console, "compared"), await played(console, "compared")
    third = await played(console, "compared", comparability_key={"turn_limit": "4"})
    await person.sign_in("ml-engineer")
    await person.open("/evaluations?suite=compared")
    for run in (one, other):
        await person.page.get_by_label(f"Compare run {run}").check()
    await person.page.get_by_role("link", name="Compare", exact=True).click()
    await person.sees("Measured on the same terms")
    await person.sees(f"podium eval compare {one} {other}")
    assert await person.page.get_by_role("region", name="Arms").get_by_text("only").count() == 2
    await person.open(f"/evaluation-compare?ids={one},{third}")
    await person.sees("measured on different terms")
    await (
        person.page.get_by_role("region", name="Terms that differ")
        .get_by_text("turn_limit")
        .wait_for()
    )


async def test_filters_narrow_the_runs(person: Person, console: ConsoleUnderTest) -> None:
    run = await played(console, "filtered")
    await person.sign_in("developer")
    await person.open("/evaluations")
    await person.page.get_by_label("Suite").select_option("filtered")
    await person.page.wait_for_url(re.compile("suite=filtered"))
    await person.page.locator(f'a[href$="{run}"]').wait_for()
    await person.page.get_by_label("State").select_option("running")
    await person.page.locator(f'a[href$="{run}"]').wait_for()
    await person.open("/evaluations?suite=nowhere")
    await person.sees("No run matches")


@pytest.mark.parametrize("width", [360, 800, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_pages_of_evaluations_fit_their_width_and_are_accessible(
    person: Person, console: ConsoleUnderTest, width: int, scheme: Literal["light", "dark"]
) -> None:
    run = await played(console, "accessible")
    async with console.http("ml-engineer") as client:
        body = {"report_json": json.dumps(without_content(figures(run)))}
        await client.put(f"/v1/evaluations/{run}/report", json=body)
    await person.page.set_viewport_size({"width": width, "height": 820})
    await person.page.emulate_media(color_scheme=scheme)
    await person.sign_in("ml-engineer")
    faults = []
    for path in (f"/evaluations/{run}", "/evaluations", f"/evaluation-compare?ids={run},{run}"):
        await person.open(path)
        await person.page.get_by_role("table").first.wait_for()
        faults += await faults_of(person, path)
    assert not faults


@pytest.mark.parametrize("kind", ["evaluation", "demo", "training"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_page_of_the_command_shows_its_document_and_runs_nothing_of_it(
    person: Person, tmp_path: Path, kind: str, scheme: Literal["light", "dark"]
) -> None:
    outcomes = [make_outcome(answer=HOSTILE), make_outcome(right=False)]
    steps = [
        {"step": str(n), "figures": {"reward_mean": n / 4, f"calls {HOSTILE}": 1.0}} for n in (1, 2)
    ]
    documents: dict[str, dict[str, Any]] = {
        "evaluation": figures(new_id()),
        "demo": demo_report(outcomes, make_accounts(), 6, "http://127.0.0.1:1"),
        "training": {"kind": "training", "run": f"run {HOSTILE}", "steps": steps},
    }
    shown = {"evaluation": "Worst items", "demo": "Spend", "training": "Reward"}
    page = tmp_path / "page.html"
    write_report_page(page, documents[kind])
    await person.page.emulate_media(color_scheme=scheme)
    faults = []
    for width in (360, 800, 1280):
        await person.page.set_viewport_size({"width": width, "height": 820})
        await person.page.goto(page.as_uri())
        await person.sees(shown[kind])
        await person.sees(HOSTILE[:10])
        faults += await faults_of(person, f"{kind} at {width}")
    assert not faults
    assert await person.page.title() != "owned"
    assert await person.page.locator("img[src=x]").count() == 0
