import pytest

from orchestrator_builders import make_completion
from orchestrator_inference.action.template_reply import parse_template_reply
from orchestrator_inference.models import Action, Completion, NativeCall, TurnRules
from podium_kit.metering import Usage, UsageSource

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
