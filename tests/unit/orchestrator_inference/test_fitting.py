import json
from collections.abc import Callable

import pytest

from orchestrator_builders import make_tool, make_turn
from orchestrator_inference.models import Message, PastTurn, Situation, TurnRules
from orchestrator_inference.prompt.budgets import Room, SectionBudgets, estimated_tokens, room_for
from orchestrator_inference.prompt.chat import build_chat
from orchestrator_inference.prompt.fitting import Prompt
from orchestrator_inference.prompt.stateless import build_stateless
from orchestrator_inference.prompt.template import build_template
from orchestrator_inference.prompt.toolset import PromptToolset

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
