from typing import Any

import grpc
import pytest

from integration.tool_registry.builders import (
    make_facts,
    make_llm_spec,
    make_model,
    make_price,
    make_spec,
)
from integration.tool_registry.running_registry import RunningRegistry, rejected
from integration.tool_registry.test_toolsets import PER_CALL, reasons, usd
from podium.registry.v1 import policy_pb2, tool_pb2
from podium.registry.v1 import policy_service_pb2 as policies_pb
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium_kit.rpc.identity import Scope

CODE = tool_pb2.TOOL_KIND_CODE
SCHEMA = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}
BOTH = {
    "type": "object",
    "properties": {"code": {}, "language": {}},
    "required": ["code", "language"],
}


def make_code_spec(name: str = "run_python", schema: Any = SCHEMA) -> tool_pb2.ToolSpec:
    connection = tool_pb2.Connection(code=tool_pb2.CodeConnection())
    return make_spec(name, schema, kind=CODE, connection=connection, sku="tool/code")


def make_composite_spec(
    executor: str = "run_python", argument: str = "code", *, gives_answer: bool = False
) -> tool_pb2.ToolSpec:
    models = [make_model("expert-1"), make_model("expert-2")]
    spec = make_llm_spec(*models, name="enhance_reasoning", gives_answer=gives_answer)
    spec.connection.llm.executor.CopyFrom(tool_pb2.LlmExecutor(tool=executor, argument=argument))
    return spec


def delegate_that_answers() -> tool_pb2.ToolSpec:
    spec = make_llm_spec(make_model("a"), gives_answer=True)
    spec.connection.llm.role = tool_pb2.LLM_ROLE_DELEGATE
    return spec


def judge_with_an_executor() -> tool_pb2.ToolSpec:
    spec = make_composite_spec()
    spec.connection.llm.role = tool_pb2.LLM_ROLE_JUDGE
    return spec


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (make_composite_spec("gone"), "connection.llm.executor.tool names gone, and there is no"),
        (make_composite_spec("answer"), "which is of kind llm; name one that has no models"),
        (
            make_composite_spec(argument="cod"),
            "argument is cod, and run_python takes code",
        ),
        (make_composite_spec("two"), "two, which requires language as well"),
        (make_composite_spec(argument=""), "connection.llm.executor.argument is empty"),
        (make_composite_spec(""), "connection.llm.executor.tool is empty"),
        (make_composite_spec(gives_answer=True), "gives_answer is set, but what a composite tool"),
        (delegate_that_answers(), "gives_answer is set, but what a composite tool"),
        (judge_with_an_executor(), "executor is for the roles generalist and specialist"),
        (
            make_llm_spec(make_model("a", base_url="http://api.example.com/v1")),
            "models[0].base_url 'http://api.example.com/v1' is not encrypted",
        ),
        (
            make_llm_spec(
                make_model(
                    "a",
                    base_url="",
                    endpoints=[tool_pb2.LlmEndpoint(base_url="http://8.8.8.8/v1")],
                )
            ),
            "models[0].endpoints[0].base_url 'http://8.8.8.8/v1' is not encrypted",
        ),
    ],
)
async def test_a_composite_tool_that_cannot_work_is_rejected_with_field_and_fix(
    registry: RunningRegistry, spec: tool_pb2.ToolSpec, words: str
) -> None:
    ada = registry.as_()
    for other in (
        make_code_spec(),
        make_code_spec("two", schema=BOTH),
        make_llm_spec(make_model("a")),
    ):
        await ada.register(other)
    error = await rejected(ada.register(spec))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert words in str(error.details())
    assert "enhance_reasoning" not in await ada.names()


async def test_a_price_ceiling_is_one_for_both_halves(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_code_spec())
    await ada.register(make_composite_spec())
    for sku in ("tool/code", "llm/expert-1", "llm/expert-2"):
        registry.prices.give(make_price(sku, PER_CALL))
    await ada.create_policy("tight", price_ceiling=usd("0.015"))
    reply = await ada.resolve("tight")
    assert [tool.name for tool in reply.toolset.tools] == ["run_python"]
    assert "a call may cost 0.02 USD" in reasons(reply)["enhance_reasoning"]


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.7:8000/v1",
        "http://vllm:8000/v1",
        "http://vllm.models.svc/v1",
        "http://[::1]/v1",
    ],
)
async def test_a_private_address_needs_no_tls(registry: RunningRegistry, url: str) -> None:
    await registry.as_().register(make_llm_spec(make_model("a", base_url=url)))
    assert await registry.as_().names() == ["answer"]


async def test_the_operator_answers_for_its_own_network(registry: RunningRegistry) -> None:
    spec = make_llm_spec(make_model("a", base_url="http://gpu.example.com:8000/v1"))
    await registry.platform().register(spec, shared=True)
    assert await registry.as_().names() == ["answer"]


async def test_a_composite_tool_and_its_executor_come_in_one_request_in_any_order(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    request = pb.RegisterToolsRequest(specs=[make_composite_spec(), make_code_spec()])
    checked = await ada.tools.RegisterTools(
        pb.RegisterToolsRequest(specs=request.specs, validate_only=True)
    )
    alone = await ada.tools.RegisterTools(pb.RegisterToolsRequest(specs=request.specs[:1]))
    made = await ada.tools.RegisterTools(request)
    assert [tool.problem for tool in (*checked.tools, *made.tools)] == [""] * 4
    assert "names run_python, and there is no such tool" in alone.tools[0].problem
    assert await ada.names() == ["enhance_reasoning", "run_python"]


async def test_a_shared_composite_tool_needs_a_shared_executor(registry: RunningRegistry) -> None:
    await registry.as_().register(make_code_spec())
    error = await rejected(registry.platform().register(make_composite_spec(), shared=True))
    assert "there is no such tool of the platform" in str(error.details())


async def test_an_episode_gets_the_executor_with_the_terms_of_both(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_code_spec())
    await ada.register(make_composite_spec())
    for sku in ("tool/code", "llm/expert-1", "llm/expert-2"):
        registry.prices.give(make_price(sku, PER_CALL))
    adapters = registry.as_("acme", Scope.LEDGER_WRITE)
    await adapters.record(make_facts("run_python"), make_facts("enhance_reasoning", "expert-1"))
    [tool] = (await ada.resolve("", "enhance_reasoning")).toolset.tools
    assert (tool.executor.name, tool.executor.sku) == ("run_python", "tool/code")
    assert tool.executor_argument == "code"
    assert tool.terms == (
        "expert-1: $0.01, 1-2 s, 99%; expert-2: $0.01, latency unknown;"
        " then run_python: $0.01, 1-2 s, 99%"
    )
    # Worst cases of two calls at $0.01: of the most expensive expert, and of the executor.
    assert tool.price_per_call.amount == "0.02"
    first, second = tool.estimates
    assert (first.cost.amount, first.latency.ToSeconds()) == ("0.02", 2)
    assert second.cost.amount == "0.02" and not second.HasField("latency")


async def test_a_policy_decides_about_the_executor_and_about_each_expert(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_code_spec())
    version = (await ada.register(make_composite_spec())).tool.version
    await ada.create_policy("no-code", deny=policy_pb2.ToolSelector(kinds=[CODE]))
    await ada.create_policy("cheap", deny=policy_pb2.ToolSelector(models=["expert-1"]))
    await ada.create_policy("asks", approval=policy_pb2.ToolSelector(names=["run_python"]))
    reason = "its executor run_python: denied by kind code"
    assert reason in reasons(await ada.resolve("no-code"))["enhance_reasoning"]
    tools = {tool.name: tool for tool in (await ada.resolve("cheap")).toolset.tools}
    assert tools["enhance_reasoning"].model_aliases == ["expert-2"]
    tools = {tool.name: tool for tool in (await ada.resolve("asks")).toolset.tools}
    assert tools["enhance_reasoning"].needs_approval
    planned = policies_pb.PlannedCall(
        tool_name="enhance_reasoning", tool_version=version, model_alias="expert-1"
    )
    decisions = {}
    for policy in ("no-code", "asks"):
        request = policies_pb.CheckCallsRequest(policy=policy, calls=[planned])
        [decisions[policy]] = (await ada.policies.CheckCalls(request)).decisions
    assert not decisions["no-code"].allowed and reason in decisions["no-code"].reason
    assert decisions["asks"].allowed and decisions["asks"].needs_approval


async def test_a_composite_tool_whose_executor_is_gone_is_not_offered(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_code_spec())
    await ada.register(make_composite_spec())
    assert len((await ada.resolve()).toolset.tools) == 2
    await ada.deprecate("run_python")
    reply = await ada.resolve()
    assert not reply.toolset.tools
    assert "its executor run_python is no tool any more" in reasons(reply)["enhance_reasoning"]
