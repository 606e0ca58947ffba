import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.orchestrator import make_completion, make_tool, make_turn
from callers import make_identity
from orchestrator_inference.engine.engine import ModelCall, TextListener
from orchestrator_inference.errors import ContextTooLong, TokensNotCounted
from orchestrator_inference.models import (
    Action,
    CallEstimate,
    Competence,
    Completion,
    EngineModel,
    Left,
    Message,
    PastTurn,
    Preferences,
    PromptTool,
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
from orchestrator_inference.prompt.fitting import Prompt
from orchestrator_inference.prompt.stateless import build_stateless, build_template
from orchestrator_inference.prompt.toolset import PromptToolset
from orchestrator_inference.prompt.worth import worth_line
from orchestrator_inference.service import Orchestrator, Policy
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.money import Money
from podium_kit.rpc.identity import acting_as

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


def recorded(name: str, *records: tuple[str, Competence | None]) -> PromptTool:
    ways = tuple(CallEstimate(alias, None, None, 0.0, record) for alias, record in records)
    return replace(make_tool(name), terms="$0.01, 1 s", estimates=ways)


def test_the_line_of_a_tool_states_its_record_in_similar_tasks() -> None:
    tools = [
        recorded("search", ("", Competence(14, 12, 0.83))),
        recorded(
            "ask",
            ("large", Competence(10, 9, 0.85)),
            ("new", None),
            ("rare", Competence(0, 0, 0.6)),
            ("small", Competence(8, 3, 0.4)),
        ),
    ]
    tools[1] = replace(tools[1], gives_answer=True)
    search, ask = PromptToolset(tools, 400).listing.splitlines()
    assert "[$0.01, 1 s; right in 12 of 14 similar tasks]:" in search
    records = "right in similar tasks: large 9 of 10, small 3 of 8"
    assert f"[$0.01, 1 s; {records}, gives the final answer]:" in ask


@pytest.mark.parametrize("how", [build_stateless, build_chat, build_template])
def test_without_a_record_a_prompt_is_what_it_was(how: "Build") -> None:
    def built(record: Competence | None) -> Prompt:
        tools = (recorded("ask", ("large", record), ("small", record)),)
        toolset, room = PromptToolset(tools, 400), room_for(8192, 512, BUDGETS)
        return how(replace(make_situation(), tools=tools), toolset, room, 1)

    assert built(Competence(0, 0, 0.9)) == built(None)
    assert built(Competence(5, 5, 0.9)) != built(None)


def test_a_turn_says_what_must_be_called_and_what_the_answer_looks_like() -> None:
    plain = make_situation()
    forced = replace(plain, rules=TurnRules(must_call=("search",)))
    shaped = replace(plain, rules=TurnRules(answer_schema='{"type": "object"}'))
    for build in (stateless, chat):
        assert build(forced)[-1].content.endswith("Call search now.")
        assert build(shaped)[-1].content.endswith('and nothing else: {"type": "object"}')
        assert "fits this schema" not in build(plain)[-1].content


CONTEXT, COMPLETION = 8192, 512
Build = Callable[[Situation, PromptToolset, Room, int], Prompt]
# As a directory of operations: far more than the context holds.
MANY = tuple(
    make_tool(
        f"operation_{number}",
        {"id": {"type": "string"}, "field": {"type": "string"}},
        description=f"Does number {number}. " + "d" * 300,
    )
    for number in range(329)
)


def build(
    how: Build, *turns: PastTurn, rules: TurnRules | None = None, context: int = CONTEXT
) -> Prompt:
    situation = Situation(
        key="e/1/model/0", task="What is 6*7?", tools=MANY, turns=turns, rules=rules or TurnRules()
    )
    room = room_for(context, COMPLETION, SectionBudgets())
    return how(situation, PromptToolset(MANY, 400), room, 1)


def text_of(prompt: Prompt) -> str:
    functions = json.dumps(prompt.functions) if prompt.functions else ""
    return functions + "".join(message.content for message in prompt.messages)


@pytest.mark.parametrize("how", [build_stateless, build_chat, build_template])
def test_results_are_whole_and_tools_take_the_rest(how: Build) -> None:
    result = "FOUND " + "r" * 6_000 + " THE END"
    prompt = build(how, make_turn("operation_300", result))
    text = text_of(prompt)
    assert result in text
    assert estimated_tokens(text) <= CONTEXT - COMPLETION
    # What was called is described before what was not.
    assert "operation_300(" in text or '"operation_300"' in text
    shown = sum(f"Does number {number}. " in text for number in range(329))
    assert 20 < shown < 329
    assert f"({329 - shown} more tools are left out" in text
    assert prompt.left_out == (f"{329 - shown} of 329 tools, which do not fit the model's context",)


@pytest.mark.parametrize("how", [build_stateless, build_chat, build_template])
def test_what_is_cut_of_results_is_said_and_some_tools_stay(how: Build) -> None:
    turns = [make_turn("operation_7", f"{number} " + "r" * 40_000) for number in range(3)]
    prompt = build(how, *turns)
    text = text_of(prompt)
    assert estimated_tokens(text) <= CONTEXT - COMPLETION
    assert "the beginning is left out, for want of room" in text
    assert "operation_7" in text
    assert any("the beginning of" in each for each in prompt.left_out)
    assert any("of 329 tools" in each for each in prompt.left_out)


def test_turns_that_do_not_fit_a_chat_are_counted() -> None:
    turns = [make_turn("operation_1", f"{number} " + "r" * 3_000) for number in range(20)]
    prompt = build(build_chat, *turns)
    [told] = [each for each in prompt.left_out if each.endswith("earlier turns")]
    count = int(told.split()[0])
    assert f"({count} earlier turns are left out" in text_of(prompt)
    assert "19 rrr" in text_of(prompt)


@pytest.mark.parametrize("how", [build_stateless, build_chat, build_template])
def test_what_must_be_called_is_shown(how: Build) -> None:
    prompt = build(how, rules=TurnRules(must_call=("operation_328",)), context=2048)
    assert "Does number 328. " in text_of(prompt)


@pytest.mark.parametrize("how", [build_stateless, build_chat, build_template])
def test_what_fits_is_left_as_it_is(how: Build) -> None:
    few = MANY[:5]
    situation = Situation(key="e/1/model/0", task="What is 6*7?", tools=few)
    room = room_for(CONTEXT, COMPLETION, SectionBudgets())
    whole = how(situation, PromptToolset(few, 400), room, 1)
    assert text_of(whole).count("d" * 300) == 5
    assert [message.role for message in whole.messages] == ["system", "user"]
    assert isinstance(whole.messages[0], Message)


@pytest.mark.parametrize("how", [build_stateless, build_chat, build_template])
def test_a_conversation_that_does_not_fit_keeps_its_end(how: Build) -> None:
    history = tuple(Message("user", f"said {number} " + "h" * 300) for number in range(200))
    found = make_turn("operation_7", "FOUND")
    situation = Situation(
        key="e/1/model/0", task="What is 6*7?", tools=MANY, turns=(found,), history=history
    )
    prompt = how(
        situation, PromptToolset(MANY, 400), room_for(CONTEXT, COMPLETION, SectionBudgets()), 1
    )
    text = text_of(prompt)
    assert estimated_tokens(text) <= CONTEXT - COMPLETION
    assert "said 199 hhh" in text
    assert "said 0 hhh" not in text
    assert "FOUND" in text
    assert "the beginning is left out, for want of room" in text
    assert "the beginning of the conversation" in prompt.left_out


def test_a_conversation_that_fits_a_chat_stays_whole() -> None:
    history = tuple(Message("user", f"said {number} " + "h" * 3_000) for number in range(6))
    situation = Situation(key="e/1/model/0", task="What is 6*7?", tools=MANY, history=history)
    room = room_for(CONTEXT, COMPLETION, SectionBudgets())
    prompt = build_chat(situation, PromptToolset(MANY, 400), room, 1)
    assert prompt.messages[1:7] == list(history)


SMALL_CONTEXT = 4_096
# Digits are tokens of their own for many models, and the newest results are kept.
TABLE = "words " * 1_200 + "12345678" * 500


@dataclass
class Reader:
    """An engine that reads digit by digit, and other text four letters at a time."""

    counts: bool
    asked: list[str] = field(default_factory=list)

    async def model(self, name: str) -> EngineModel:
        return EngineModel(name, SMALL_CONTEXT)

    async def models(self) -> tuple[EngineModel, ...]:
        return (await self.model(""),)

    async def count_tokens(self, call: ModelCall) -> int:
        if not self.counts:
            raise TokensNotCounted("reader")
        return _tokens(_text(call))

    async def complete(self, call: ModelCall, on_text: TextListener | None = None) -> Completion:
        self.asked.append(_text(call))
        if _tokens(self.asked[-1]) + call.sampling.max_tokens > SMALL_CONTEXT:
            raise ContextTooLong(f"{_tokens(self.asked[-1])} tokens")
        return make_completion('{"answer":"42"}')


def _text(call: ModelCall) -> str:
    return "".join(message.content for message in call.messages)


def _tokens(text: str) -> int:
    digits = sum(letter.isdigit() for letter in text)
    return digits + (len(text) - digits) // 4


async def decide(engine: Reader, task: str, *contents: str) -> str | None:
    turns = tuple(make_turn(content=content) for content in contents)
    situation = Situation(key="k", task=task, tools=(make_tool(),), turns=turns)
    with acting_as(make_identity()):
        decision = await Orchestrator(engine, Policy(SectionBudgets()), 1).next_action(situation)
    assert decision.left_out == ("the beginning of: earlier attempts",)
    return decision.action.final_answer


@pytest.mark.parametrize("counts", [True, False])
async def test_results_of_digits_are_cut_until_they_fit(counts: bool) -> None:
    engine = Reader(counts)
    assert await decide(engine, "What is the sum?", TABLE) == "42"
    assert "5678\n\n" in engine.asked[-1]
    assert [len(text) for text in engine.asked] == sorted(map(len, engine.asked), reverse=True)


async def test_half_of_the_room_is_halved_again_where_the_prompt_has_less() -> None:
    assert await decide(Reader(counts=False), "What is the sum?", "12345678" * 600) == "42"


async def test_a_task_that_does_not_fit_is_rejected() -> None:
    engine = Reader(counts=True)
    with pytest.raises(ContextTooLong):
        await decide(engine, TABLE)


def way(alias: str, cost: str, latency_s: float | None, weight: float = 0.0) -> CallEstimate:
    return CallEstimate(alias, Money(Decimal(cost), "USD") if cost else None, latency_s, weight)


def tool(name: str, *ways: CallEstimate) -> PromptTool:
    return PromptTool(name, "", "{}", estimates=ways)


CALCULATOR = tool("calculator", way("", "0.000001", 0.01))
SEARCH = tool("search", way("", "0.0001", 0.05))
LARGE, SMALL = way("large", "0.004", 22), way("small", "0.0004", 2)
OFFERED = [CALCULATOR, SEARCH, tool("ask", LARGE, SMALL)]


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
    assert worth_line(OFFERED, weights) == f"A right answer is worth, of 10: {worth}."


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
