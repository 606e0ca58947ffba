"""Competence is learnt from a tenant's verified episodes, and frozen with the toolset."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import Platform, new_id
from integration.episodes.test_feedback import check
from podium.episodes.v1 import episode_pb2, trajectory_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium_training.tasks.task import Split

TASK = "How much is {} times {}, please?"
SOLVED, FAILED = check("numeric", expected=42), check("numeric", expected=41)
ENOUGH = 8
NUMBERS = itertools.count(11)


def task() -> str:
    return TASK.format(next(NUMBERS), next(NUMBERS))


@pytest.fixture
def shop(platform: Platform) -> Platform:
    """A tool, another one, and one with two models."""
    toolset = make_toolset("abacus", "slate")
    experts = toolset_pb2.ResolvedTool(
        name="ask",
        version=1,
        kind=tool_pb2.TOOL_KIND_LLM,
        parameters_json_schema='{"type": "object", "properties": {"model": {"type": "string"}}}',
        model_aliases=["large", "small"],
        model_skus={"large": "llm/large", "small": "llm/small"},
        max_output_tokens=100,
    )
    toolset.tools.append(experts)
    for tool in toolset.tools:
        for alias in tool.model_aliases or [""]:
            tool.estimates.add(model_alias=alias)
    platform.neighbours.registry.toolset = toolset
    return platform


async def play(
    platform: Platform, *tools: str, times: int = ENOUGH, **spec: Any
) -> list[episode_pb2.Episode]:
    """Plays episodes that call these tools, one in a turn, and answer 42."""
    parts = (each.partition(" ") for each in tools)
    turns = [calls(call(name, arguments or "{}")) for name, _, arguments in parts]
    platform.neighbours.orchestrator.decide = in_turns(*turns, answer("42"))
    return [await platform.run(task(), **spec) for _ in range(times)]


async def recorded(platform: Platform, **spec: Any) -> trajectory_pb2.Trajectory:
    platform.neighbours.orchestrator.decide = in_turns(answer("42"))
    return await platform.recorded(task(), **spec)


def records(trajectory: trajectory_pb2.Trajectory) -> dict[str, tuple[int, int]]:
    """The stated records of tools and models, as they were shown to the model."""
    return {
        f"{tool.name} {each.model_alias}".strip(): (
            each.competence.right_count,
            each.competence.similar_task_count,
        )
        for tool in trajectory.tools
        for each in tool.estimates
        if each.competence.similar_task_count
    }


async def until_known(
    platform: Platform, holds: Callable[[dict[str, tuple[int, int]]], bool], **spec: Any
) -> dict[str, tuple[int, int]]:
    """Starts episodes until what is read in the background is there."""
    async with asyncio.timeout(120):
        while not holds(found := records(await recorded(platform, **spec))):
            await asyncio.sleep(0.2)
    return found


async def test_the_record_of_a_tool_is_in_the_prompt_once_there_are_enough_tasks(
    shop: Platform,
) -> None:
    await play(shop, "abacus", times=4, check=SOLVED)
    await play(shop, "slate", check=FAILED)
    found = await until_known(shop, lambda found: "slate" in found)
    # Four similar tasks are no record.
    assert set(found) == {"slate"} and found["slate"][0] == 0
    await play(shop, "abacus", times=4, check=SOLVED)
    found = await until_known(shop, lambda found: "abacus" in found)
    right, similar = found["abacus"]
    assert 5 <= right == similar <= 8


async def test_the_record_is_of_the_model_that_answered(shop: Platform) -> None:
    await play(shop, 'ask {"model": "large"}', check=SOLVED)
    await play(shop, 'ask {"model": "small"}', check=FAILED)
    found = await until_known(shop, lambda found: {"ask large", "ask small"} <= set(found))
    assert set(found) == {"ask large", "ask small"}
    # Every model that is asked is overloaded here, and the other one answers.
    assert found["ask small"][0] == found["ask small"][1] and found["ask large"][0] == 0


async def test_the_last_result_before_the_answer_has_the_credit(shop: Platform) -> None:
    shop.neighbours.adapters.failures = {"slate": "it broke"}
    await play(shop, 'ask {"model": "small"}', "abacus", "slate", check=SOLVED)
    assert set(await until_known(shop, bool)) == {"abacus"}


async def test_the_toolset_is_frozen_with_the_record_and_its_digest_covers_it(
    shop: Platform,
) -> None:
    before = await recorded(shop)
    assert records(before) == {}
    await play(shop, "abacus", check=SOLVED)
    await until_known(shop, bool)
    asked = len(shop.neighbours.orchestrator.requests)
    after = await recorded(shop)
    assert after.toolset_digest != before.toolset_digest
    [request] = shop.neighbours.orchestrator.requests[asked:]
    assert list(request.tools) == list(after.tools), "training sees another prompt"


async def test_without_consent_nothing_is_read(shop: Platform) -> None:
    shop.neighbours.registry.toolset.training_consent = False
    unread = await play(shop, "abacus", check=SOLVED)
    await shop.ada.GiveFeedback(pb.GiveFeedbackRequest(episode_id=unread[0].id, score=1))
    shop.neighbours.registry.toolset.training_consent = True
    await shop.announce_change()
    await play(shop, "slate", check=SOLVED)
    assert set(await until_known(shop, bool)) == {"slate"}
    assert await credited(shop) == {"{slate}": ENOUGH}


async def credited(platform: Platform) -> dict[str, int]:
    """Counts verdicts by the tools that have the credit."""
    engine = create_async_engine(platform.database_url)
    statement = text(
        "SELECT CAST(credited AS text) AS tools, count(*) AS verdicts FROM episode_facts"
        " WHERE tenant = :tenant AND (credited <> '{}' OR verdict IS NOT NULL) GROUP BY credited"
    )
    async with engine.connect() as connection:
        rows = (await connection.execute(statement, {"tenant": platform.tenant})).all()
    await engine.dispose()
    return {row.tools: row.verdicts for row in rows}


async def test_an_answer_that_was_not_verified_counts_for_nothing(shop: Platform) -> None:
    await play(shop, "abacus")
    # The verifier's own call fails: unjudged is not wrong.
    shop.neighbours.adapters.failures = {"slate": "it broke"}
    unjudged = check("python", code="def check(answer): return True", tool="slate")
    await play(shop, "abacus", check=unjudged)
    shop.neighbours.adapters.failures = {}
    await play(shop, "slate", check=SOLVED)
    assert set(await until_known(shop, bool)) == {"slate"}


async def test_feedback_is_a_verdict_where_no_check_gave_one(shop: Platform) -> None:
    rated = [*await play(shop, "abacus"), *await play(shop, "slate", check=SOLVED)]
    for episode in rated:
        for score in (1.0, 0.0):
            await shop.ada.GiveFeedback(pb.GiveFeedbackRequest(episode_id=episode.id, score=score))
    found = await until_known(shop, lambda found: {"abacus", "slate"} <= set(found))
    # The newest feedback counts, and none against a check.
    assert found["abacus"][0] == 0 and found["slate"][0] == found["slate"][1]


async def test_another_tenant_has_no_record(shop: Platform) -> None:
    await play(shop, "abacus", check=SOLVED)
    await until_known(shop, bool)
    other = shop.for_new_tenant()
    other.neighbours.registry.toolset = shop.neighbours.registry.toolset
    await play(other, "slate", check=FAILED)
    assert set(await until_known(other, bool)) == {"slate"}


async def test_episodes_of_the_same_task_do_not_teach_each_other(shop: Platform) -> None:
    group = new_id()
    for index in range(ENOUGH):
        place = episode_pb2.Group(id=group, size=ENOUGH + 1, sample_index=index)
        await play(shop, "abacus", times=1, check=SOLVED, group=place)
    await until_known(shop, lambda found: "abacus" in found)
    place = episode_pb2.Group(id=group, size=ENOUGH + 1, sample_index=ENOUGH)
    assert records(await recorded(shop, group=place)) == {}


async def test_episodes_that_measure_teach_nothing(shop: Platform) -> None:
    await play(shop, "abacus", check=SOLVED, labels={"evaluation": new_id()})
    await play(shop, "abacus", check=SOLVED, labels={"split": Split.HELD_OUT})
    await play(shop, "slate", check=SOLVED)
    assert set(await until_known(shop, bool)) == {"slate"}


async def test_a_deleted_episode_is_forgotten(shop: Platform) -> None:
    await play(shop, "abacus", check=SOLVED)
    await until_known(shop, bool)
    engine = create_async_engine(shop.database_url)
    async with engine.begin() as connection:
        deleted = text("DELETE FROM episode_facts WHERE tenant = :tenant")
        await connection.execute(deleted, {"tenant": shop.tenant})
    await engine.dispose()
    assert await until_known(shop, lambda found: not found) == {}
