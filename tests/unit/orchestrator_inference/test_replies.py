import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.orchestrator import make_completion
from orchestrator_inference.action.parser import parse_action
from orchestrator_inference.action.template_reply import parse_template_reply
from orchestrator_inference.models import Action, Completion, NativeCall, PastTurn, TurnRules
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium_kit.failures import FailureKind
from podium_kit.metering import Usage, UsageSource

TOOLS = {"calculator"}


def parse(text: str, *, must_answer: bool = False, calls_max: int = 2, **kind: object) -> Action:
    completion = make_completion(text, **kind)  # type: ignore[arg-type]
    return parse_action(completion, TOOLS, calls_max, TurnRules(must_answer=must_answer))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "holds no JSON object"),
        ("I would calculate.", "holds no JSON object"),
        ('{"tool": "calculator", "arguments": {', "not valid JSON"),
        ('{"tool": "telescope", "arguments": {}}', "no tool 'telescope'"),
        ('{"tool": "calculator", "arguments": "1+1"}', '"arguments" of calculator'),
        ('{"tool": 3}', 'neither "tool" nor "answer"'),
        ('{"answer": ["a"]}', '"answer" is not a string'),
        ('{"answer": "a", "tool": "calculator"}', "both calls a tool and answers"),
        ('{"calls": []}', "at least one call"),
        ('{"calls": [1]}', "a call is not a JSON object"),
        ('{"calls": [{"tool":"calculator"},{"tool":"calculator"},{"tool":"calculator"}]}', "3 c"),
        ('{"tool": "calculator", "arguments": {"n": 1e999}}', "out of range"),
        ('{"tool": "calculator", "arguments": {"n": NaN}}', "NaN is no JSON"),
        ('{"a": ' + "[" * 100_000, "not valid JSON"),
        ('{"tool": "calculator", "arguments": {"n": ' + "9" * 5000 + "}}", "not valid JSON"),
    ],
)
@pytest.mark.parametrize("constrained", [True, False])
def test_a_wrong_reply_says_what_was_wrong(text: str, why: str, constrained: bool) -> None:
    failure = parse(text, constrained=constrained).malformed
    assert failure is not None
    assert failure.kind is FailureKind.MALFORMED_ACTION
    assert why in failure.message


def test_a_reply_cut_by_the_token_limit_says_so_and_is_recognised_later() -> None:
    action = parse('{"tool": "calculator", "argum', finish_reason="length")
    assert action.malformed is not None
    assert "cut at the token limit" in action.malformed.message
    assert PastTurn("", action).was_cut


def test_a_complete_action_is_accepted_even_when_the_engine_stopped_at_the_limit() -> None:
    assert parse('{"answer":"42"}', finish_reason="length").final_answer == "42"


def test_a_call_on_the_last_turn_is_malformed() -> None:
    failure = parse('{"tool": "calculator", "arguments": {}}', must_answer=True).malformed
    assert failure is not None
    assert failure.message.endswith('Reply with {"answer": text}.')


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"tool": "calculator", "arguments": {"expression": "1+1"}}\n```',
        '<think>{maybe}</think> {"tool": "calculator", "arguments": {"expression": "1+1"}}',
        '<tool_call>{"name": "calculator", "arguments": {"expression": "1+1"}}</tool_call>',
        'Sure! {"tool": "calculator", "arguments": {"expression": "1+1"}} Done.',
    ],
)
def test_an_engine_without_a_grammar_may_wrap_its_action(text: str) -> None:
    action = parse(text, constrained=False)
    assert [call.arguments_json for call in action.calls] == ['{"expression":"1+1"}']


@pytest.mark.parametrize("constrained", [True, False])
def test_what_an_answer_quotes_is_no_wrapping(constrained: bool) -> None:
    quoted = "```json\n{}\n``` <think>or</think> <tool_call>this</tool_call>"
    text = json.dumps({"answer": quoted})
    assert parse(text, constrained=constrained).final_answer == quoted
    behind = f"<think>a</think> and <think>{{b}}</think>```json\n{text}\n```"
    assert parse(behind, constrained=False).final_answer == quoted


def test_calls_an_engine_parsed_itself_keep_their_ids() -> None:
    native = (NativeCall("call_7", "calculator", '{"expression": "1+1"}'),)
    action = parse("thinking", native_calls=native)
    assert [(call.model_call_id, call.arguments_json) for call in action.calls] == [
        ("call_7", '{"expression":"1+1"}')
    ]
    assert action.thought == "thinking"


def test_broken_arguments_of_a_native_call_are_malformed() -> None:
    action = parse("", native_calls=(NativeCall("call_7", "calculator", '{"expression"'),))
    assert action.malformed is not None


def test_raw_control_characters_inside_strings_are_read() -> None:
    assert parse('{"answer":"a\tb\x01"}').final_answer == "a\tb\x01"


def test_lone_surrogates_do_not_break_the_wire() -> None:
    action = parse('{"thought":"\\udfff","answer":"a\\ud800b\\ud83d\\ude00"}')
    assert action.final_answer == "a\ufffdb😀"
    pb.Action(thought=action.thought, final_answer=action.final_answer)


def test_nul_becomes_a_character_that_can_be_stored() -> None:
    assert parse('{"answer":"4\\u00002"}').final_answer == "4\ufffd2"


@given(st.text())
def test_no_text_at_all_raises(text: str) -> None:
    parse(text, constrained=False)
    parse(text, constrained=True)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_no_json_at_all_raises(value: object) -> None:
    parse(json.dumps({"tool": "calculator", "arguments": value, "answer": value}))
    parse(json.dumps({"calls": value}))


PLACE = json.dumps(
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
)


def decided(text: str, **rules: object) -> Action:
    completion = make_completion(text)
    return parse_action(completion, TOOLS, 1, TurnRules(**rules))  # type: ignore[arg-type]


def test_an_answer_with_a_schema_is_its_json() -> None:
    plain = decided('{"answer": {"city": "Lyon", "people": 1e5}}', answer_schema=PLACE)
    assert json.loads(plain.final_answer or "") == {"city": "Lyon", "people": 1e5}
    quoted = decided(json.dumps({"answer": '{"city": "Lyon"}'}), answer_schema=PLACE)
    assert json.loads(quoted.final_answer or "") == {"city": "Lyon"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"answer": {"town": "Lyon"}}', "does not fit its schema: at /: 'city' is a required"),
        ('{"answer": "Lyon"}', "the answer is not JSON"),
    ],
)
def test_an_answer_that_does_not_fit_says_why(text: str, why: str) -> None:
    failure = decided(text, answer_schema=PLACE).malformed
    assert failure is not None and why in failure.message
    assert failure.message.endswith('{"answer": {...}} to finish.')


def test_a_file_that_an_answers_schema_names_is_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"const": "42 is the key"}')
    schema = json.dumps({"type": "object", "if": True, "then": {"$ref": secret.as_uri()}})
    failure = decided('{"answer": {}}', answer_schema=schema).malformed
    assert failure is not None and "is not local" in failure.message
    assert "the key" not in failure.message


@pytest.mark.parametrize("text", ['{"answer": "42"}', '{"tool": "calculator", "arguments": {}}'])
def test_a_turn_that_must_call_a_tool_does_nothing_else(text: str) -> None:
    failure = decided(text, must_call=("search",)).malformed
    assert failure is not None and "this turn calls search" in failure.message
    assert "finish" not in failure.message


def test_a_call_that_must_be_made_is_one() -> None:
    action = decided('{"tool": "calculator", "arguments": {}}', must_call=("calculator",))
    assert [call.tool_name for call in action.calls] == ["calculator"]


CALL = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "6*7"}}\n</tool_call>'
NAMES = ("calculator", "search")


def parsed(
    text: str,
    calls_max: int = 1,
    *,
    finish_reason: str = "stop",
    must_answer: bool = False,
    answering: tuple[str, ...] = (),
    native_calls: tuple[NativeCall, ...] = (),
) -> Action:
    completion = Completion(
        text=text,
        finish_reason=finish_reason,
        usage=Usage.of(UsageSource.ESTIMATED),
        model_version="m",
        engine="vllm",
        latency_s=0.1,
        native_calls=native_calls,
    )
    rules = TurnRules(must_answer=must_answer, answering=answering)
    return parse_template_reply(completion, NAMES, calls_max, rules)


def made(action: Action) -> list[tuple[str, str]]:
    return [(call.tool_name, call.arguments_json) for call in action.calls]


@pytest.mark.parametrize(
    ("text", "thought"),
    [
        (CALL, ""),
        (f"<think>\nI compute.\n</think>\n\n{CALL}", "I compute."),
        # The template has opened the thought.
        (f"I compute.\n</think>\n{CALL}", "I compute."),
        (f"I will use the calculator.\n{CALL}", ""),
    ],
)
def test_a_call_in_tags_behind_a_thought_or_words(text: str, thought: str) -> None:
    action = parsed(text)
    assert made(action) == [("calculator", '{"expression":"6*7"}')]
    assert action.thought == thought


def test_code_in_an_argument_stays_as_it_was_written() -> None:
    call = '<tool_call>{"name": "search", "arguments": {"code": "```json\\n{}\\n```"}}</tool_call>'
    assert made(parsed(call)) == [("search", '{"code":"```json\\n{}\\n```"}')]


def test_a_reply_without_a_call_is_the_answer() -> None:
    action = parsed("<think>6*7 is 42.</think>\n\nIt is **42**.")
    assert (action.final_answer, action.thought) == ("It is **42**.", "6*7 is 42.")


def test_calls_are_counted_and_their_names_known() -> None:
    both = CALL + '<tool_call>{"name": "search", "arguments": {}}</tool_call>'
    assert made(parsed(both, 2)) == [("calculator", '{"expression":"6*7"}'), ("search", "{}")]
    assert "at most 1" in problem(parsed(both))
    assert "no tool 'clock'" in problem(parsed('<tool_call>{"name": "clock"}</tool_call>'))
    assert "last turn and it calls" in problem(parsed(CALL, must_answer=True))


def test_the_last_turn_may_call_what_gives_the_answer() -> None:
    answering = ("search",)
    search = '<tool_call>{"name": "search", "arguments": {}}</tool_call>'
    assert made(parsed(search, must_answer=True, answering=answering)) == [("search", "{}")]
    said = problem(parsed(CALL, must_answer=True, answering=answering))
    assert said.startswith("this is the last turn and it calls calculator. Reply with <tool_call>")


def test_calls_that_the_engine_parsed_are_taken() -> None:
    native = NativeCall("call-1", "search", '{"query": "tides"}')
    action = parsed("<think>Look.</think>", native_calls=(native,))
    assert made(action) == [("search", '{"query":"tides"}')]
    assert action.thought == "Look."


@pytest.mark.parametrize(
    ("text", "finish_reason", "says"),
    [
        ("<think>and then", "length", "cut at the token limit"),
        (CALL[:30], "length", "cut at the token limit"),
        ("<think>and then", "stop", "the thought has no end"),
        (CALL[:40], "stop", "the call has no end"),
        ("<think>hm</think>\n", "stop", "the reply is empty"),
        ("<tool_call>calculator</tool_call>", "stop", "holds no JSON object"),
        ('<tool_call>{"name": 3}</tool_call>', "stop", 'neither "tool" nor "answer"'),
        (
            '<tool_call>{"name": "search", "arguments": [1]}</tool_call>',
            "stop",
            "not a JSON object",
        ),
    ],
)
def test_what_is_neither_says_why_and_how(text: str, finish_reason: str, says: str) -> None:
    message = problem(parsed(text, finish_reason=finish_reason))
    assert says in message
    assert message.endswith("to call a tool, or the answer.")


def problem(action: Action) -> str:
    assert action.malformed is not None
    return action.malformed.message


def test_an_answer_with_a_schema_may_stand_in_a_fence() -> None:
    schema = '{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}'
    rules = TurnRules(answer_schema=schema)
    fenced = make_completion('```json\n{"city": "Lyon"}\n```')
    assert parse_template_reply(fenced, NAMES, 1, rules).final_answer == '{"city": "Lyon"}'
    prose = parse_template_reply(make_completion("Lyon"), NAMES, 1, rules)
    assert "the answer is not JSON" in problem(prose)
