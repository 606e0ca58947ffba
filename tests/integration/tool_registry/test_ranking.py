import grpc
import pytest

from integration.tool_registry.builders import (
    INPUT,
    make_facts,
    make_llm_spec,
    make_model,
    make_price,
    make_spec,
    used,
)
from integration.tool_registry.running_registry import Caller, RunningRegistry, rejected
from podium.registry.v1 import policy_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium_kit.rpc.identity import Scope

ABOUT = {
    "calculator": "Calculates sums, products and percentages.",
    "translate": "Translates a text into another language.",
    "weather": "Forecasts rain, wind and temperature of a place.",
    "stock_quote": "Gives the price of a share at the exchange.",
    "recipes": "Finds dishes to cook from some ingredients.",
    "timetable": "Gives departures of trains between two stations.",
}


async def registered(registry: RunningRegistry, tenant: str = "acme") -> Caller:
    ada = registry.as_(tenant)
    for name, description in ABOUT.items():
        await ada.register(make_spec(name, description=description))
    await ada.create_policy("mine")
    return ada


async def offered(caller: Caller, task: str, places: int = 2, *known: str) -> list[str]:
    request = pb.ResolveToolsetRequest(
        policy="mine", task=task, tools_max=places, known_tool_names=known
    )
    reply = await caller.tools.ResolveToolset(request)
    return [tool.name for tool in reply.toolset.tools]


@pytest.mark.parametrize(
    ("task", "fits"),
    [
        ("Do I need an umbrella in Bergen tomorrow?", "weather"),
        ("What shall I make for dinner with leeks and potatoes?", "recipes"),
        ("When is the next railway connection from Ghent to Bruges?", "timetable"),
        ("How do you say good morning in Portuguese?", "translate"),
        ("What is 17% of 230?", "calculator"),
    ],
)
async def test_tools_fit_a_task_that_has_no_word_of_theirs(
    registry: RunningRegistry, task: str, fits: str
) -> None:
    names = await offered(await registered(registry), task)
    assert fits in names and len(names) == 3
    assert names[-1] == "find_tools"


async def test_an_example_task_brings_a_tool_to_tasks_like_it(registry: RunningRegistry) -> None:
    ada = await registered(registry)
    task = "Who has the keys of the boathouse?"
    assert "stock_quote" not in await offered(ada, task)
    examples = ["Who has the keys of the garage?"]
    await ada.register(
        make_spec("stock_quote", description=ABOUT["stock_quote"], example_tasks=examples)
    )
    assert "stock_quote" in await offered(ada, task, 1)


async def test_what_is_known_or_denied_is_not_found(registry: RunningRegistry) -> None:
    ada = await registered(registry)
    task = "a hot meal in cold weather"
    assert "recipes" in await offered(ada, task, 6)
    assert "recipes" not in await offered(ada, task, 6, "recipes", "find_tools")
    await ada.create_policy("mine", deny=policy_pb2.ToolSelector(names=["recipes"]))
    assert "recipes" not in await offered(ada, task, 4)


async def test_every_tool_is_offered_where_there_is_room(registry: RunningRegistry) -> None:
    assert await offered(await registered(registry), "anything", 6) == sorted(ABOUT)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (make_spec("find_tools"), "the platform's own tool is named find_tools"),
        (make_spec(example_tasks=["?"] * 21), "example_tasks holds 21; give at most 20"),
        (make_spec(example_tasks=["ok", " "]), "example_tasks[1] is blank"),
        (
            make_spec(example_tasks=["x" * 301]),
            "example_tasks[0] has 301 characters",
        ),
        (make_spec(kind=9), "it is offered, not registered"),
    ],
)
async def test_what_cannot_be_registered_says_why(
    registry: RunningRegistry, spec: object, problem: str
) -> None:
    error = await rejected(registry.as_().register(spec))  # type: ignore[arg-type]
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert problem in str(error.details())


async def test_finding_is_named_like_a_tool_and_denied_like_one(registry: RunningRegistry) -> None:
    ada = await registered(registry)
    reply = await ada.resolve("mine", "weather", "find_tools")
    assert [tool.name for tool in reply.toolset.tools] == ["weather", "find_tools"]
    denied = policy_pb2.ToolSelector(names=["find_tools"])
    await ada.create_policy("floor", deny=denied)
    assert "find_tools" not in await offered(ada, "rain")
    error = await rejected(ada.resolve("mine", "weather", "find_tools"))
    assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert "find_tools is not allowed: denied by name" in str(error.details())


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
