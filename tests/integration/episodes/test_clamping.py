import pytest

from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import EpisodesPlatform, finished, start
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.registry.v1 import tool_pb2, toolset_pb2

LABELS = {"team": "red", "agent": "bot"}


def expert_toolset() -> toolset_pb2.Toolset:
    toolset = make_toolset("answer", "calculator", "retired")
    for tool, skus in zip(
        toolset.tools, ({"big": "m/big", "small": "m/small"}, {}, {}), strict=True
    ):
        tool.model_skus.update(skus)
    expert, _, other = toolset.tools
    expert.kind, expert.max_output_tokens = tool_pb2.TOOL_KIND_LLM, 1000
    expert.capabilities.append("answering")
    other.capabilities.append("answering")
    return toolset


async def test_models_and_llm_tools_write_no_more_than_is_granted(
    platform: EpisodesPlatform,
) -> None:
    neighbours = platform.neighbours
    neighbours.registry.toolset = expert_toolset()
    neighbours.ledger.output_tokens_max = 100
    ask = calls(call("answer", '{"model": "big"}'), call("calculator", index=1))
    neighbours.orchestrator.decide = in_turns(ask, answer("42"))
    async with platform.client() as client:
        episode = await finished(client, (await start(client, labels=LABELS)).id)
        reply = await client.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode.id))
    assert [request.sampling.max_tokens for request in neighbours.orchestrator.requests] == [
        100
    ] * 2
    asked = {
        request.tool_name: request.max_output_tokens for request in neighbours.adapters.requests
    }
    assert asked == {"answer": 100, "calculator": 0}
    first = reply.trajectory.turns[0]
    granted = [each.granted_output_tokens for each in first.tool_invocations]
    assert (first.model_call.granted_output_tokens, granted) == (100, [100, 0])


@pytest.mark.parametrize(
    "arguments",
    ['{"q": "x"}', '{"model": "dear"}', '{"model": null}', '{"model": ["big"]}', '{"model": ""}'],
)
async def test_a_call_that_names_no_model_of_several_is_an_error_that_the_model_reads(
    platform: EpisodesPlatform, arguments: str
) -> None:
    neighbours = platform.neighbours
    neighbours.registry.toolset = expert_toolset()
    neighbours.orchestrator.decide = in_turns(
        calls(call("answer", arguments)), calls(call("answer", '{"model": "small"}')), answer("x")
    )
    async with platform.client() as client:
        episode = await finished(client, (await start(client)).id)
        reply = await client.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode.id))
    [unnamed] = reply.trajectory.turns[0].tool_invocations
    assert unnamed.observation.failure.kind == failure_pb2.FAILURE_KIND_INVALID_ARGUMENTS
    assert '"model" must be one of big, small' in unnamed.observation.failure.message
    # What is asked is what was priced and held.
    [request] = neighbours.adapters.requests
    [hold] = [hold for hold in neighbours.ledger.holds.values() if hold.subject.tool == "answer"]
    assert (request.model_alias, hold.subject.model, hold.sku) == ("small", "small", "m/small")


async def test_a_reserve_says_for_whom_it_is_and_what_may_be_called_instead(
    platform: EpisodesPlatform,
) -> None:
    neighbours = platform.neighbours
    neighbours.registry.toolset = expert_toolset()
    neighbours.orchestrator.decide = in_turns(
        calls(call("answer", '{"model": "big"}')), answer("x")
    )
    async with platform.client() as client:
        episode = await finished(client, (await start(client, labels=LABELS)).id)
        reply = await client.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode.id))
    assert reply.trajectory.turns[0].model_call.granted_output_tokens == 0
    reserve = neighbours.ledger.holds[f"{episode.id}/1/tool/0"]
    assert (reserve.subject.team, reserve.subject.agent) == ("red", "bot")
    assert (reserve.sku, reserve.min_output_tokens) == ("m/big", 64)
    assert [(each.tool, each.model, each.sku) for each in reserve.alternatives] == [
        ("answer", "small", "m/small"),
        ("retired", "", "tool/retired"),
    ]
    same = ledger_pb.ReserveRequest(worst_case=reserve.alternatives[0].worst_case)
    assert same.worst_case == reserve.worst_case


async def test_models_that_the_policy_allows_now_may_answer_and_the_one_that_does_is_charged(
    platform: EpisodesPlatform,
) -> None:
    neighbours = platform.neighbours
    toolset = expert_toolset()
    models = ["tiny", "big", "small"]
    toolset.tools[0].model_aliases.extend(models)
    toolset.tools[0].model_skus["tiny"] = "m/tiny"
    neighbours.registry.toolset = toolset
    neighbours.policies.rejected_models = {"small"}
    neighbours.orchestrator.decide = in_turns(
        calls(call("answer", '{"model": "big"}'), call("calculator", index=1)), answer("x")
    )
    async with platform.client() as client:
        episode = await finished(client, (await start(client)).id)
        reply = await client.GetTrajectory(pb.GetTrajectoryRequest(episode_id=episode.id))
    key = f"{episode.id}/1/tool/0"
    held = neighbours.ledger.holds[key].fallbacks
    assert [(each.model, each.sku) for each in held] == [("tiny", "m/tiny"), ("small", "m/small")]
    asked = {each.key: list(each.fallback_models) for each in neighbours.adapters.requests}
    assert (asked[key], asked[f"{episode.id}/1/tool/1"]) == (["tiny"], [])
    first, other = reply.trajectory.turns[0].tool_invocations
    assert (first.model, first.answered_by_model, first.sku) == ("big", "tiny", "m/tiny")
    assert not other.answered_by_model
    charged = neighbours.ledger.answered_by
    assert {name: each.sku for name, each in charged.items()} == {key: "m/tiny"}
