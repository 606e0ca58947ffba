from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator_inference.models import CallEstimate, Preferences, PromptTool
from orchestrator_inference.prompt.worth import worth_line
from podium_kit.money import Money


def way(alias: str, cost: str, latency_s: float | None, weight: float = 0.0) -> CallEstimate:
    return CallEstimate(alias, Money(Decimal(cost), "USD") if cost else None, latency_s, weight)


def tool(name: str, *ways: CallEstimate) -> PromptTool:
    return PromptTool(name, "", "{}", estimates=ways)


CALCULATOR = tool("calculator", way("", "0.000001", 0.01))
SEARCH = tool("search", way("", "0.0001", 0.05))
LARGE, SMALL = way("large", "0.004", 22), way("small", "0.0004", 2)
TOOLS = [CALCULATOR, SEARCH, tool("ask", LARGE, SMALL)]


@pytest.mark.parametrize(
    ("weights", "worth"),
    [
        (Preferences(1, 0, 0), "by tools 10, large 10, small 10"),
        (Preferences(1, 1, 0), "by tools 10, small 10, large 5"),
        (Preferences(0.5, 1, 0), "by tools 10, small 9, large 3"),
        (Preferences(0.2, 0.2, 1), "by tools 10, small 9, large 1"),
        (Preferences(0, 0, 0), "by tools 10, large 10, small 10"),
    ],
    ids=["outcome alone", "cost", "mostly cost", "latency", "nothing"],
)
def test_the_weights_decide_what_an_answer_is_worth(weights: Preferences, worth: str) -> None:
    assert worth_line(TOOLS, weights) == f"A right answer is worth, of 10: {worth}."


def test_a_tool_that_is_weighed_is_named() -> None:
    tools = [CALCULATOR, SEARCH, tool("code", way("", "0", 0.1, weight=1.0))]
    said = worth_line(tools, Preferences(1, 0, 0))
    assert said == "A right answer is worth, of 10: code 10, by tools 5."


def test_tools_alike_need_no_line() -> None:
    assert worth_line([CALCULATOR, SEARCH], Preferences(1, 1, 1)) == ""


def test_models_alone_have_no_tools_beside_them() -> None:
    said = worth_line([tool("ask", LARGE, SMALL)], Preferences(1, 1, 0))
    assert said == "A right answer is worth, of 10: small 10, large 5."


@pytest.mark.parametrize(
    "unknown",
    [way("new", "", 1.0), way("new", "0.001", None)],
    ids=["cost", "latency"],
)
def test_what_is_unknown_is_not_stated_where_it_counts(unknown: CallEstimate) -> None:
    tools = [CALCULATOR, tool("ask", LARGE, unknown)]
    assert "new" not in worth_line(tools, Preferences(1, 0.5, 0.5))
    assert "new 10" in worth_line(tools, Preferences(1, 0, 0))


def test_what_is_known_of_none_tells_none_apart() -> None:
    tools = [tool("ask", way("large", "0.004", None), way("small", "0.0004", None))]
    said = worth_line(tools, Preferences(1, 1, 1))
    assert said == "A right answer is worth, of 10: small 10, large 7."


def test_amounts_of_other_currencies_are_not_compared() -> None:
    euro = CallEstimate("euro", Money(Decimal("0.001"), "EUR"), 1.0)
    assert "euro" not in worth_line([CALCULATOR, tool("ask", LARGE, euro)], Preferences(1, 1, 0))


WEIGHTS = st.floats(0, 1)
COSTS = st.decimals(0, 1, places=6).map(str)


@given(outcome=WEIGHTS, cost=WEIGHTS, costs=st.lists(COSTS, min_size=2, max_size=6))
def test_who_costs_more_is_worth_no_more(outcome: float, cost: float, costs: list[str]) -> None:
    models = tool("ask", *(way(f"m{at}", each, 1.0) for at, each in enumerate(costs)))
    said = worth_line([models], Preferences(outcome, cost, 0)).rstrip(".")
    named = [part.split() for part in said.partition(": ")[2].split(", ")]
    worth = {name: int(tenths) for name, tenths in named}
    assert list(worth.values()) == sorted(worth.values(), reverse=True), "the best comes first"
    by_cost = sorted(worth, key=lambda name: Decimal(costs[int(name[1:])]))
    in_order = [worth[name] for name in by_cost]
    assert in_order[0] == 10
    assert in_order == sorted(in_order, reverse=True)
