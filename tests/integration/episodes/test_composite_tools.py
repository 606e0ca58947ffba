import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import TASK, Platform, events, finished, start, until
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import tool_pb2, toolset_pb2

CODE = "Six times seven is a product.\n```python\nprint(6 * 7)\n```\nThat prints it."
Written = Callable[[adapters_pb.InvokeRequest], str]


def expert(name: str, **fields: Any) -> toolset_pb2.ResolvedTool:
    aliases = ["expert-1", "expert-2"]
    return toolset_pb2.ResolvedTool(
        name=name,
        version=1,
        kind=tool_pb2.TOOL_KIND_LLM,
        parameters_json_schema='{"type": "object"}',
        model_skus={alias: f"llm/{alias}" for alias in aliases},
        model_aliases=aliases,
        max_output_tokens=500,
        **fields,
    )


def executor(name: str = "run_python") -> toolset_pb2.ResolvedTool:
    [tool] = make_toolset(name).tools
    tool.kind = tool_pb2.TOOL_KIND_CODE
    return tool


def composite(**fields: Any) -> toolset_pb2.ResolvedTool:
    return expert("reason", executor=executor(), executor_argument="code", **fields)


def delegate() -> toolset_pb2.ResolvedTool:
    return expert("call_expert", delegates=True)


def asks(tool: str, alias: str = "expert-2") -> orchestrator_pb.Action:
    return calls(call(tool, json.dumps({"model": alias})))


def writes(text: str) -> Written:
    return lambda request: text if request.model_alias else f"ran {request.arguments_json}"


def offering(platform: Platform, *tools: toolset_pb2.ResolvedTool) -> None:
    platform.neighbours.registry.toolset = make_toolset("calculator")
    platform.neighbours.registry.toolset.tools.extend(tools)


@pytest.fixture
def composed(platform: Platform) -> Platform:
    offering(platform, composite(), delegate())
    platform.neighbours.orchestrator.decide = in_turns(asks("reason"), answer("42"))
    platform.neighbours.adapters.content = writes(CODE)
    return platform


def shown(platform: Platform) -> orchestrator_pb.Observation:
    """Returns what the orchestrator is shown of the first turn's call."""
    [observation] = platform.neighbours.orchestrator.requests[-1].turns[0].observations
    return observation


async def test_the_executor_runs_what_the_expert_wrote_and_both_come_back(
    composed: Platform,
) -> None:
    trajectory = await composed.recorded()
    wrote, ran = composed.neighbours.adapters.requests
    assert (wrote.tool_name, wrote.model_alias, wrote.task) == ("reason", "expert-2", TASK)
    assert ran.tool_name == "run_python"
    assert json.loads(ran.arguments_json) == {"code": "print(6 * 7)"}
    seen = shown(composed)
    assert seen.call.tool_name == "reason"
    assert seen.content == f"{CODE}\n\nrun_python gave:\nran {ran.arguments_json}"
    [invocation] = trajectory.turns[0].tool_invocations
    assert invocation.observation == seen
    assert invocation.executor.key == invocation.key.replace("/tool/", "/executor/")
    [definition] = [
        tool for tool in composed.neighbours.orchestrator.requests[0].tools if tool.name == "reason"
    ]
    assert definition.section == orchestrator_pb.RESULT_SECTION_CODE


async def test_both_are_held_before_and_captured_after_as_one_call(composed: Platform) -> None:
    trajectory = await composed.recorded()
    [invocation] = trajectory.turns[0].tool_invocations
    ledger = composed.neighbours.ledger
    wrote, ran = ledger.holds[invocation.key], ledger.holds[invocation.executor.key]
    assert (wrote.subject.tool, wrote.subject.model, wrote.sku) == (
        "reason",
        "expert-2",
        "llm/expert-2",
    )
    assert (ran.subject.tool, ran.subject.turn, ran.sku) == ("reason", 1, "tool/run_python")
    both = ledger.captured[invocation.key] + ledger.captured[invocation.executor.key]
    assert Decimal(invocation.cost.amount) == both
    assert Decimal(invocation.executor.cost.amount) == ledger.captured[invocation.executor.key]
    assert Decimal(trajectory.cost.amount) == ledger.total(trajectory.episode_id)
    assert not ledger.open()
    # A call of the composite tool is one call: of the tool, and of the expert that was chosen.
    counts = dict(zip(trajectory.tool_names, trajectory.features.tool_call_counts, strict=True))
    assert counts["reason"] == 1


async def test_a_watcher_sees_what_was_run(composed: Platform) -> None:
    ended = await composed.run()
    returned = [
        event.tool_returned.observation.call
        for event in await events(composed.ada, ended.id)
        if event.HasField("tool_returned")
    ]
    assert [(each.tool_name, each.index) for each in returned] == [("reason", 0), ("run_python", 0)]
    assert ended.tool_call_count == 1


@pytest.mark.parametrize("reason", ["length", "content_filter", "refusal"])
@pytest.mark.parametrize("tool", ["reason", "call_expert"])
async def test_a_reply_that_is_not_whole_is_never_run(
    composed: Platform, reason: str, tool: str
) -> None:
    composed.neighbours.orchestrator.decide = in_turns(asks(tool), answer("42"))
    composed.neighbours.adapters.content = writes('{"name": "calculator", "arguments": {}}')
    composed.neighbours.adapters.finish_reason = reason
    ended = await composed.run()
    assert [request.tool_name for request in composed.neighbours.adapters.requests] == [tool]
    assert shown(composed).failure.kind == failure_pb2.FAILURE_KIND_MALFORMED_OUTPUT
    assert "nothing was run, for the reply is not whole" in shown(composed).failure.message
    assert ended.all_tool_calls_failed


async def test_a_failed_executor_is_an_observation_with_the_experts_text(
    composed: Platform,
) -> None:
    composed.neighbours.adapters.failures = {"run_python": "the code failed; fix it:\nNameError"}
    ended = await composed.run()
    assert ended.stop_reason == episode_pb2.STOP_REASON_ANSWERED and ended.all_tool_calls_failed
    seen = shown(composed)
    assert seen.failure.kind == failure_pb2.FAILURE_KIND_TOOL_ERROR
    assert "run_python failed with the text below: the code failed" in seen.failure.message
    assert "print(6 * 7)" in seen.failure.message


async def test_a_failed_expert_runs_nothing(composed: Platform) -> None:
    composed.neighbours.adapters.failures = {"reason": "the model is overloaded"}
    ended = await composed.run()
    assert ended.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    assert shown(composed).failure.message == "the model is overloaded"
    assert len(composed.neighbours.adapters.requests) == 1


async def test_a_budget_that_does_not_cover_the_executor_says_so(composed: Platform) -> None:
    # The orchestrator's first call and the expert's.
    composed.neighbours.ledger.reject_after = 2
    ended = await composed.run()
    assert ended.stop_reason == episode_pb2.STOP_REASON_BUDGET_EXHAUSTED
    [invocation] = await composed.invocations(ended.id)
    failure = invocation.executor.observation.failure
    assert failure.kind == failure_pb2.FAILURE_KIND_BUDGET_EXHAUSTED
    assert not composed.neighbours.ledger.open()


async def test_an_executor_that_is_denied_by_now_is_not_called(composed: Platform) -> None:
    composed.neighbours.policies.rejected["run_python"] = "denied by kind code"
    await composed.run()
    assert shown(composed).failure.kind == failure_pb2.FAILURE_KIND_DENIED_BY_POLICY
    assert len(composed.neighbours.adapters.requests) == 1


async def test_a_retry_does_not_buy_the_experts_reply_again(composed: Platform) -> None:
    composed.neighbours.adapters.away["run_python"] = 2
    ended = await composed.run()
    assert ended.stop_reason == episode_pb2.STOP_REASON_ANSWERED
    invoked = composed.neighbours.adapters.invoked
    assert sorted(key.split("/", 1)[1] for key in invoked) == ["1/executor/0", "1/tool/0"]
    assert invoked[f"{ended.id}/1/tool/0"] == 1 and invoked[f"{ended.id}/1/executor/0"] == 3


async def test_an_episode_that_ends_while_the_executor_runs_leaves_no_open_hold(
    composed: Platform,
) -> None:
    composed.neighbours.adapters.stalled.add("run_python")
    episode = await start(composed.ada)
    await until(lambda: len(composed.neighbours.adapters.requests) == 2)
    await composed.ada.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id))
    trajectory = await composed.trajectory((await finished(composed.ada, episode.id)).id)
    [invocation] = trajectory.turns[0].tool_invocations
    assert invocation.executor.observation.call.tool_name == "run_python"
    assert not invocation.HasField("cost") and not invocation.executor.HasField("cost")
    assert trajectory.unpriced_call_count == 1
    assert not composed.neighbours.ledger.open()


async def test_a_delegate_takes_a_step_with_the_episodes_tools(composed: Platform) -> None:
    composed.neighbours.orchestrator.decide = in_turns(asks("call_expert"), answer("42"))
    written = '{"name": "calculator", "arguments": {"x": 6}}'
    written = f"<think>easy</think>\n<tool_call>\n{written}\n</tool_call>"
    composed.neighbours.adapters.content = writes(written)
    trajectory = await composed.recorded()
    asked, ran = composed.neighbours.adapters.requests
    assert [tool.name for tool in asked.offered_tools] == ["calculator"]
    assert (ran.tool_name, json.loads(ran.arguments_json)) == ("calculator", {"x": 6})
    [invocation] = trajectory.turns[0].tool_invocations
    assert invocation.executor.sku == "tool/calculator"
    assert 'calculator gave:\nran {"x": 6}' in shown(composed).content


@pytest.mark.parametrize(
    ("text", "ran"),
    [
        ('```json\n{"name": "calculator", "arguments": {"x": 6}}\n```', '{"x": 6}'),
        ('{"name": "calculator", "arguments": "{\\"x\\": 6}"}', '{"x": 6}'),
        ('{"name": "calculator"}', "{}"),
    ],
)
async def test_a_delegates_call_is_read_in_the_forms_that_models_write(
    composed: Platform, text: str, ran: str
) -> None:
    composed.neighbours.orchestrator.decide = in_turns(asks("call_expert"), answer("42"))
    composed.neighbours.adapters.content = writes(text)
    await composed.run()
    assert composed.neighbours.adapters.requests[-1].arguments_json == ran


@pytest.mark.parametrize("text", ["It is 42.", '<tool_call>{"name": </tool_call>', "[1, 2]"])
async def test_a_delegates_words_are_the_result(composed: Platform, text: str) -> None:
    composed.neighbours.orchestrator.decide = in_turns(asks("call_expert"), answer("42"))
    composed.neighbours.adapters.content = writes(text)
    await composed.run()
    assert shown(composed).content == text
    assert len(composed.neighbours.adapters.requests) == 1


@pytest.mark.parametrize("name", ["deploy", "call_expert", "reason"])
async def test_a_delegate_calls_no_tool_that_it_was_not_offered(
    composed: Platform, name: str
) -> None:
    composed.neighbours.registry.toolset.tools.extend(
        make_toolset("deploy", needs_approval=True).tools
    )
    composed.neighbours.orchestrator.decide = in_turns(asks("call_expert"), answer("42"))
    composed.neighbours.adapters.content = writes(json.dumps({"name": name, "arguments": {}}))
    await composed.run()
    assert shown(composed).failure.kind == failure_pb2.FAILURE_KIND_NOT_FOUND
    assert len(composed.neighbours.adapters.requests) == 1
