"""What a call is expected to cost and take, as the registry tells the orchestrator in numbers."""

from integration.tool_registry.builders import (
    INPUT,
    make_facts,
    make_llm_spec,
    make_model,
    make_price,
    make_spec,
    used,
)
from integration.tool_registry.running_registry import RunningRegistry
from podium.registry.v1 import policy_pb2
from podium_kit.rpc.identity import Scope

ADMIT = policy_pb2.UNKNOWN_PRICE_RULE_ADMIT
TOKENS = {"INPUT_FRESH": ("0.20", "1000000"), "OUTPUT_TEXT": ("0.80", "1000000")}
Weights = policy_pb2.PreferenceVector


async def test_estimates_are_means_or_before_any_call_of_a_stated_size(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.register(make_llm_spec(make_model("strong"), make_model("quick"), make_model("new")))
    registry.prices.give(make_price("llm/strong", TOKENS), make_price("llm/quick", TOKENS))
    await registry.as_("acme", Scope.LEDGER_WRITE).record(
        make_facts("answer", "strong", p50_s=31, p95_s=40, usage=[used(INPUT, "400000")])
    )
    [tool] = (await ada.resolve()).toolset.tools
    strong, quick, new = tool.estimates
    assert (strong.model_alias, strong.cost.amount) == ("strong", "0.0002")
    assert strong.latency.seconds == 20
    # 500 tokens in at $0.20 a million, and 500 out at $0.80.
    assert (quick.cost.amount, quick.HasField("latency")) == ("0.0005", False)
    assert not new.HasField("cost")
    [scaled] = (await ada.resolve(**{"llm/strong": "3", "llm/quick": "2"})).toolset.tools
    assert [each.cost.amount for each in scaled.estimates] == ["0.0005", "0.001", ""]


async def test_estimates_of_calls_bear_costs_and_weights(registry: RunningRegistry) -> None:
    """The model's weight is added to its tool's; a price that is unknown stays so."""
    ada = registry.as_()
    await ada.register(make_spec())
    await ada.register(make_llm_spec(make_model("strong"), make_model("quick")))
    weights = Weights(outcome=1, tools={"answer": 0.5, "answer/quick": 0.25})
    await ada.create_policy(unknown_price=ADMIT, preferences=weights)
    toolset = (await ada.resolve("mine")).toolset
    estimates = {tool.name: tool.estimates for tool in toolset.tools}
    assert [(each.model_alias, each.weight) for each in estimates["answer"]] == [
        ("strong", 0.5),
        ("quick", 0.75),
    ]
    [calculator] = estimates["calculator"]
    assert (calculator.model_alias, calculator.weight) == ("", 0.0)
    assert not any(each.HasField("latency") for each in estimates["answer"])
    assert not any(each.HasField("cost") for each in estimates["answer"])
