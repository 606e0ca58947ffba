import asyncio
import json
from typing import Any

import pytest

from integration.episodes.neighbours import (
    answer,
    call,
    calls,
    in_turns,
    make_toolset,
    orchestrator_tool,
)
from integration.episodes.platform_under_test import EpisodesPlatform, finished, start
from integration.episodes.tenants import Outage
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1 import trajectory_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium_kit.rpc.errors import FailedPrecondition, Unavailable
from podium_kit.wire import digest_of
from tool_registry.toolsets.convert import FIND_TOOLS_DEFINITION

FIND = call("find_tools", json.dumps({"query": "look words up"}))
RESOLVE = "ToolRegistryService/ResolveToolset"
AWAY = Unavailable("connection refused", retry_after_s=0.01)


@pytest.fixture(autouse=True)
def registry(platform: EpisodesPlatform) -> None:
    registry = platform.neighbours.registry
    registry.toolset = make_toolset("calculator")
    registry.toolset.tools.append(FIND_TOOLS_DEFINITION)
    registry.found = make_toolset("search")


async def trajectory(platform: EpisodesPlatform, **spec: Any) -> trajectory_pb2.Trajectory:
    async with platform.client() as client:
        episode = await start(client, **spec)
        await finished(client, episode.id)
        reply = await client.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode.id))
    return reply.trajectory


def names(tools: object) -> list[str]:
    return [tool.name for tool in tools]  # type: ignore[attr-defined]


async def test_what_was_found_is_no_part_of_the_frozen_toolset(platform: EpisodesPlatform) -> None:
    neighbours = platform.neighbours
    neighbours.orchestrator.decide = in_turns(calls(FIND), answer("42"))
    recorded = await trajectory(platform)
    async with platform.client() as client:
        listed = await client.ListEpisodes(pb.ListEpisodesRequest())
    assert names(recorded.tools) == ["calculator", "find_tools", "search"]
    digest = digest_of(neighbours.registry.toolset)
    assert recorded.toolset_digest == digest
    assert [each.toolset_digest for each in listed.episodes] == [digest]


async def test_a_tool_that_is_found_is_listed_called_and_recorded(
    platform: EpisodesPlatform,
) -> None:
    neighbours = platform.neighbours
    neighbours.orchestrator.decide = in_turns(calls(FIND), calls(call("search")), answer("42"))
    factors = {"tool/search": "2"}
    found = await trajectory(platform, task="what does candid mean?", price_factors=factors)
    listed = [names(request.tools) for request in neighbours.orchestrator.requests]
    known = ["calculator", "find_tools"]
    assert listed == [known, [*known, "search"], [*known, "search"]]
    looked, used = found.turns[0].tool_invocations[0], found.turns[1].tool_invocations[0]
    assert looked.observation.content == "You may call these now:\nsearch: does search"
    assert names(looked.found_tools) == ["search"] and not looked.HasField("usage")
    assert used.observation.content == "search says {}"
    assert names(found.tools) == list(found.tool_names) == [*known, "search"]
    assert list(found.features.tool_call_counts) == [0, 1, 1]
    assert found.unpriced_call_count == 0
    # The model's three calls and the tool's one; looking is free.
    assert len(neighbours.ledger.captured) == 4
    first, second = neighbours.registry.asked
    assert (first.task, first.tools_max) == ("what does candid mean?", 8)
    assert (second.task, list(second.known_tool_names)) == ("look words up", known)
    assert second.price_factors == first.price_factors == factors


async def test_what_was_said_before_counts_and_named_tools_are_not_ranked(
    platform: EpisodesPlatform,
) -> None:
    message = orchestrator_pb.ConversationMessage(role="user", content="weather in Oslo?")
    await trajectory(platform, task="and in Lyon?", history=[message])
    await trajectory(platform, tool_names=["calculator"])
    ranked, named = platform.neighbours.registry.asked
    assert ranked.task == "weather in Oslo?\nand in Lyon?"
    assert (named.task, named.tools_max) == ("", 0)


async def test_wrong_arguments_are_a_failure_that_the_model_sees(
    platform: EpisodesPlatform,
) -> None:
    wrong = calls(call("find_tools", "{}"), call("find_tools", "{", index=1))
    platform.neighbours.orchestrator.decide = in_turns(wrong, answer("42"))
    found = await trajectory(platform)
    for looked in found.turns[0].tool_invocations:
        failure = looked.observation.failure
        assert failure.kind == failure_pb2.FAILURE_KIND_INVALID_ARGUMENTS
        assert "find_tools: " in failure.message


async def test_where_nothing_else_fits_it_says_so(platform: EpisodesPlatform) -> None:
    platform.neighbours.registry.found = make_toolset()
    # Episodes that others call are part of a budget that was shared at the start.
    platform.neighbours.registry.found.tools.append(orchestrator_tool())
    platform.neighbours.orchestrator.decide = in_turns(calls(FIND), answer("42"))
    found = await trajectory(platform)
    [looked] = found.turns[0].tool_invocations
    assert looked.observation.content == "There is no other tool for that."
    assert names(found.tools) == ["calculator", "find_tools"]


async def test_a_registry_that_is_away_is_waited_for(platform: EpisodesPlatform) -> None:
    outages: list[Outage] = []

    def decide(request: orchestrator_pb.NextActionRequest) -> orchestrator_pb.Action:
        if request.turns:
            return answer("42")
        outages.append(platform.tenants.fail(platform.tenant, RESOLVE, error=AWAY))
        return calls(FIND)

    platform.neighbours.orchestrator.decide = decide
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        running = group.create_task(trajectory(platform))
        while not outages or outages[0].calls < 3:
            await asyncio.sleep(0.01)
        outages[0].end()
    found = running.result()
    assert found.answer == "42"
    assert names(found.turns[0].tool_invocations[0].found_tools) == ["search"]


async def test_a_registry_that_rejects_the_search_is_a_failure_that_the_model_sees(
    platform: EpisodesPlatform,
) -> None:
    outages: list[Outage] = []

    def decide(request: orchestrator_pb.NextActionRequest) -> orchestrator_pb.Action:
        if request.turns:
            return answer("42")
        error = FailedPrecondition("the list of tools is being moved")
        outages.append(platform.tenants.fail(platform.tenant, RESOLVE, error=error))
        return calls(FIND)

    platform.neighbours.orchestrator.decide = decide
    found = await trajectory(platform)
    [looked] = found.turns[0].tool_invocations
    assert (found.answer, found.unpriced_call_count) == ("42", 0)
    assert "being moved" in looked.observation.failure.message
    # Looking is free: no money was held for it that could be given back.
    assert not platform.neighbours.ledger.released
