from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest

from orchestrator_builders import make_tool, make_turn
from orchestrator_inference.errors import ContextTooLong
from orchestrator_inference.models import (
    Action,
    CallEstimate,
    Left,
    Message,
    PastTurn,
    Preferences,
    ResultSection,
    Situation,
    TurnRules,
)
from orchestrator_inference.prompt.budgets import (
    Room,
    SectionBudgets,
    estimated_tokens,
    keep_end,
    room_for,
)
from orchestrator_inference.prompt.chat import build_chat
from orchestrator_inference.prompt.stateless import build_stateless
from orchestrator_inference.prompt.toolset import PromptToolset
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.money import Money

TOOLS = (
    make_tool(),
    make_tool("search", {"query": {"type": "string"}}, section=ResultSection.DOCUMENT),
    make_tool("python", {"code": {"type": "string"}}, section=ResultSection.CODE),
)
TOOLSET = PromptToolset(TOOLS, 400)
BUDGETS = SectionBudgets()
MALFORMED = ToolFailure(FailureKind.MALFORMED_ACTION, "the reply holds no JSON object")


def make_situation(*turns: PastTurn, must_answer: bool = False) -> Situation:
    return Situation(
        key="e/1/model/0",
        task="What is 6*7?",
        instruction="Prefer free tools.",
        tools=TOOLS,
        turns=turns,
        rules=TurnRules(must_answer=must_answer),
    )


def stateless(situation: Situation, context_tokens: int = 8192) -> list[Message]:
    return build_stateless(situation, TOOLSET, room_for(context_tokens, 512, BUDGETS), 1).messages


def chat(situation: Situation, context_tokens: int = 8192) -> list[Message]:
    return build_chat(situation, TOOLSET, room_for(context_tokens, 512, BUDGETS), 1).messages


def test_stateless_shows_problem_documents_code_attempts_and_the_request_in_this_order() -> None:
    turns = (
        make_turn("calculator", "attempted"),
        make_turn("python", "printed"),
        make_turn("search", "found"),
    )
    system, user = stateless(make_situation(*turns))
    assert system.role == "system"
    order = ["6*7?", "Prefer free", "found", "printed", "attempted", "Choose the next tool"]
    assert sorted(order, key=user.content.index) == order


def test_stateless_shows_failures_and_malformed_replies_as_errors_among_the_attempts() -> None:
    timeout = ToolFailure(FailureKind.TIMEOUT, "no answer within 30 s")
    turns = (make_turn("search", failure=timeout), PastTurn("oops", Action(malformed=MALFORMED)))
    user = stateless(make_situation(*turns))[1].content
    attempts = user[user.index("Earlier attempts") :]
    assert "error (timeout): no answer within 30 s" in attempts
    assert "error (malformed_action): the reply holds no JSON object" in attempts
    assert "Documents" not in user


def test_over_long_results_keep_their_end_and_the_prompt_fits_its_room() -> None:
    turns = [make_turn(tool, "x" * 90_000 + tool) for tool in ("search", "python", "calculator")]
    messages = stateless(make_situation(*turns))
    text = "".join(message.content for message in messages)
    assert estimated_tokens(text) <= 8192 - 512
    assert all(text.count("x" + tool) == 1 for tool in ("search", "python", "calculator"))


def test_the_last_turn_asks_for_the_answer() -> None:
    assert "final answer now" in stateless(make_situation(must_answer=True))[1].content
    last = make_situation(make_turn(), must_answer=True)
    assert "final answer now" in chat(last)[-1].content


def test_the_system_message_is_the_same_on_every_turn() -> None:
    first = stateless(make_situation())[0]
    assert stateless(make_situation(make_turn(), must_answer=True))[0] == first


def test_chat_is_the_history_with_observations() -> None:
    turns = (
        make_turn(completion_text='{"tool":"calculator"}'),
        PastTurn("oops", Action(malformed=MALFORMED)),
    )
    messages = chat(make_situation(*turns))
    assert [message.role for message in messages] == [
        *("system", "user", "assistant", "user", "assistant", "user")
    ]
    assert messages[2].content == '{"tool":"calculator"}'
    assert messages[3].content == 'calculator {"expression":"6*7"} -> 42'
    assert messages[5].content.startswith("error (malformed_action)")


def test_chat_leaves_out_the_oldest_turns_when_they_do_not_fit() -> None:
    turns = [make_turn(content=f"{number} " + "x" * 3_000) for number in range(20)]
    text = "".join(message.content for message in chat(make_situation(*turns)))
    assert estimated_tokens(text) <= 8192 - 512
    assert "19 xxx" in text
    assert "-> 0 xxx" not in text


def test_tools_are_listed_in_one_line_each_with_types_and_choices() -> None:
    tool = make_tool(
        "convert",
        {
            "value": {"type": "number"},
            "unit": {"enum": ["km", "mi"]},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        description="Converts\n lengths.",
        required=["value", "unit"],
    )
    assert PromptToolset([tool], 400).listing == (
        '- convert(value: number, unit: "km"|"mi", tags?: [string]): Converts lengths.'
    )


def test_fifteen_tools_take_less_than_a_third_of_a_context_of_8192() -> None:
    tools = [make_tool(f"tool_{number}", description="d" * 2_000) for number in range(15)]
    assert estimated_tokens(PromptToolset(tools, 400).listing) < 8192 / 3


def test_a_completion_as_long_as_the_context_is_rejected() -> None:
    with pytest.raises(ContextTooLong, match="max_tokens 8192 leaves 0 of 8192"):
        room_for(8192, 8192, BUDGETS)


def test_budgets_scale_with_the_context() -> None:
    assert Room(2_700, BUDGETS).scaled(8_000) == 800
    assert Room(27_000, BUDGETS).shrunk().prompt_tokens == 13_500


@pytest.mark.parametrize(("counted", "room"), [(750, 3_600), (3_000, 900)])
def test_a_count_of_the_model_makes_the_room_wider_or_narrower(counted: int, room: int) -> None:
    found = Room(2_700, BUDGETS).counted(estimated=1_000, tokens=counted)
    assert found.prompt_tokens == room
    # Counted again, it is of the same tokens.
    again = found.counted(estimated=1_000, tokens=counted)
    assert again.prompt_tokens == pytest.approx(room, abs=2)
    # A section has the same share of the model's tokens.
    assert found.scaled(8_000) == pytest.approx(room * 800 / 2_700, abs=2)


def test_keeping_the_end_never_splits_a_character() -> None:
    assert keep_end("日本語" * 10, 2) == "本語"


@pytest.mark.parametrize("build", [stateless, chat])
def test_weights_and_what_is_left_stand_at_the_end(
    build: Callable[[Situation], list[Message]],
) -> None:
    situation = replace(
        make_situation(make_turn("calculator", "42")),
        preferences=Preferences(1.0, 0.4, 0.25),
        left=Left(Money(Decimal("0.4993"), "USD"), 109.7),
    )
    said = "Weights: outcome 1, cost 0.4, latency 0.25. Left: $0.5, 110 s."
    system, *_, last = build(situation)
    assert said in last.content[last.content.index("42") :]
    assert system == build(replace(situation, preferences=None, left=Left()))[0]


def test_tools_and_models_that_are_weighed_stand_beside_the_other_weights() -> None:
    ways = (CallEstimate("large", None, None, 0.0), CallEstimate("small", None, None, 0.9))
    tools = (
        make_tool(),
        replace(make_tool("search"), estimates=(CallEstimate("", None, None, 0.25),)),
        replace(make_tool("ask"), estimates=ways),
    )
    situation = replace(make_situation(), tools=tools, preferences=Preferences(1.0, 0.4, 0.25))
    said = "Weights: outcome 1, cost 0.4, latency 0.25, search 0.25, small 0.9."
    assert said in stateless(situation)[-1].content


def test_what_is_spent_up_is_said_as_nothing() -> None:
    left = Left(Money(Decimal("-0.01"), "EUR"), 0.0)
    assert "Left: 0 EUR, 0 s." in stateless(replace(make_situation(), left=left))[1].content


def test_a_tools_terms_are_never_cut() -> None:
    terms = "; ".join(f"model{number}: $0.01, 1 s" for number in range(50))
    tool = replace(make_tool(description="x" * 2_000), terms=terms)
    [line] = PromptToolset([tool], 40).listing.splitlines()
    assert f"[{terms}]: xxx" in line
    assert len(line) < len(terms) + 100


def test_a_turn_says_what_must_be_called_and_what_the_answer_looks_like() -> None:
    plain = make_situation()
    forced = replace(plain, rules=TurnRules(must_call=("search",)))
    shaped = replace(plain, rules=TurnRules(answer_schema='{"type": "object"}'))
    for build in (stateless, chat):
        assert build(forced)[-1].content.endswith("Call search now.")
        assert build(shaped)[-1].content.endswith('and nothing else: {"type": "object"}')
        assert "fits this schema" not in build(plain)[-1].content
