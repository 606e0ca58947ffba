import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_adapters.adapter import (
    AnswerOptions,
    CallFailed,
    FunctionChoice,
    ModelFunction,
    ModelFunctionCall,
    ModelMessage,
)
from tool_adapters.llm.apis import (
    AnthropicMessages,
    LlmApiFormat,
    OpenAiChat,
    OpenAiResponses,
    Question,
)
from tool_adapters.llm.completion import StreamedCompletion
from tool_adapters.llm.parts import AnswerParts
from tool_adapters.llm.stream import read_completion
from tool_adapters.models import LlmApi, LlmModel
from tool_adapters.used_secrets import UsedSecrets

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = ModelFunction("weather", "Weather of a city.", json.dumps(SCHEMA))
CALL = ModelFunctionCall("call_1", "weather", '{"city": "Oslo"}')
MESSAGES = (
    ModelMessage("user", "How cold is Oslo?"),
    ModelMessage("assistant", "Let me see.", function_calls=(CALL,)),
    ModelMessage("tool", "-3", call_id="call_1"),
    ModelMessage("user", "And now?"),
)


def body(api: LlmApiFormat, **options: Any) -> dict[str, Any]:
    model = LlmModel("small", "small-model", "http://model/v1", LlmApi.OPENAI_CHAT)
    asked = AnswerOptions(**{"functions": (WEATHER,), **options})
    return dict(api.body(model, Question("", MESSAGES, 100, None, seed=7, options=asked)))


def test_chat_completions_have_functions_their_calls_and_results() -> None:
    sent = body(OpenAiChat(), stop=("END",), top_logprobs=2, single_call=True)
    assert sent["tools"][0]["function"]["parameters"] == SCHEMA
    assert (sent["tool_choice"], sent["parallel_tool_calls"]) == ("auto", False)
    assert (sent["seed"], sent["stop"]) == (7, ["END"])
    assert (sent["logprobs"], sent["top_logprobs"]) == (True, 2)
    _, said, result, _ = sent["messages"]
    assert said["content"] == "Let me see."
    function = {"name": "weather", "arguments": CALL.arguments}
    assert said["tool_calls"] == [{"id": "call_1", "type": "function", "function": function}]
    assert result == {"role": "tool", "tool_call_id": "call_1", "content": "-3"}


def test_responses_have_items_of_calls_and_results() -> None:
    sent = body(OpenAiResponses())
    [tool] = sent["tools"]
    assert (tool["name"], tool["strict"]) == ("weather", False)
    assert [item.get("type", item.get("role")) for item in sent["input"]] == [
        *("user", "assistant", "function_call", "function_call_output", "user")
    ]
    assert sent["input"][3] == {"type": "function_call_output", "call_id": "call_1", "output": "-3"}


@pytest.mark.parametrize("strict", [True, False])
def test_a_strict_function_is_one_to_every_api(strict: bool) -> None:
    functions = (replace(WEATHER, strict=strict),)
    [chat] = body(OpenAiChat(), functions=functions)["tools"]
    [responses] = body(OpenAiResponses(), functions=functions)["tools"]
    [messages] = body(AnthropicMessages(), functions=functions)["tools"]
    # Responses are strict where nothing is stated.
    assert responses["strict"] is strict
    for sent in (chat["function"], messages):
        assert sent.get("strict", False) is strict and ("strict" in sent) is strict


def test_messages_have_results_in_one_message_with_what_the_user_says_next() -> None:
    sent = body(AnthropicMessages(), stop=("END",), single_call=True)
    [tool] = sent["tools"]
    assert (tool["name"], tool["input_schema"]) == ("weather", SCHEMA)
    assert sent["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert sent["stop_sequences"] == ["END"]
    _, said, results = sent["messages"]
    assert [block["type"] for block in said["content"]] == ["text", "tool_use"]
    assert said["content"][1]["input"] == {"city": "Oslo"}
    assert [block["type"] for block in results["content"]] == ["tool_result", "text"]


@pytest.mark.parametrize(
    ("api", "choices"),
    [
        (OpenAiChat(), ["none", "required", {"type": "function", "function": {"name": "weather"}}]),
        (OpenAiResponses(), ["none", "required", {"type": "function", "name": "weather"}]),
        (
            AnthropicMessages(),
            [{"type": "none"}, {"type": "any"}, {"type": "tool", "name": "weather"}],
        ),
    ],
)
def test_the_choice_of_functions_is_the_callers(api: LlmApiFormat, choices: list[object]) -> None:
    none = body(api, choice=FunctionChoice.NONE)["tool_choice"]
    required = body(api, choice=FunctionChoice.REQUIRED)["tool_choice"]
    named = body(api, function_name="weather")["tool_choice"]
    assert [none, required, named] == choices


@pytest.mark.parametrize(
    ("api", "path"),
    [
        (OpenAiChat(), ("response_format", "json_schema", "schema")),
        (OpenAiResponses(), ("text", "format", "schema")),
        (AnthropicMessages(), ("output_config", "format", "schema")),
    ],
)
def test_an_answer_fits_a_schema(api: LlmApiFormat, path: tuple[str, ...]) -> None:
    found: Any = body(api, answer_schema=SCHEMA)
    for name in path:
        found = found[name]
    assert found == SCHEMA


class Stream:
    status = 200

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self.headers = {"content-type": "text/event-stream"}
        self._events = events

    async def chunks(self) -> AsyncIterator[bytes]:
        for event in self._events:
            yield f"data: {json.dumps(event)}\n\n".encode()


def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def piece(index: object, **call: Any) -> dict[str, Any]:
    number = {} if index is None else {"index": index}
    return chunk({"tool_calls": [{**number, **call}]})


def block(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


STREAMS: list[tuple[LlmApiFormat, list[dict[str, Any]]]] = [
    (
        OpenAiChat(),
        [
            chunk({"content": "Hm."}),
            piece(0, id="call_1", function={"name": "weather", "arguments": ""}),
            piece(0, function={"arguments": '{"city": '}),
            piece(0, function={"arguments": '"Oslo"}'}),
            chunk({}, "tool_calls"),
        ],
    ),
    (
        # All at once and without a number, as some servers send it.
        OpenAiChat(),
        [
            chunk({"content": "Hm."}),
            piece(None, id="call_1", function={"name": "weather", "arguments": CALL.arguments}),
            chunk({}, "stop"),
        ],
    ),
    (
        OpenAiResponses(),
        [
            block("response.created", response={"id": "r"}),
            block("response.output_text.delta", delta="Hm."),
            block(
                "response.output_item.added",
                output_index=1,
                item={"type": "function_call", "call_id": "call_1", "name": "weather"},
            ),
            block("response.function_call_arguments.delta", output_index=1, delta=CALL.arguments),
            block("response.completed", response={"status": "completed"}),
        ],
    ),
    (
        AnthropicMessages(),
        [
            block("message_start", message={"id": "m", "usage": {"input_tokens": 5}}),
            block("content_block_start", index=0, content_block={"type": "text", "text": ""}),
            block("content_block_delta", index=0, delta={"type": "text_delta", "text": "Hm."}),
            block(
                "content_block_start",
                index=1,
                content_block={"type": "tool_use", "id": "call_1", "name": "weather", "input": {}},
            ),
            block(
                "content_block_delta",
                index=1,
                delta={"type": "input_json_delta", "partial_json": CALL.arguments},
            ),
            block("message_delta", delta={"stop_reason": "tool_use"}),
        ],
    ),
]


@pytest.mark.parametrize(("api", "events"), STREAMS)
async def test_calls_are_read_from_a_stream(
    api: LlmApiFormat, events: list[dict[str, Any]]
) -> None:
    arriving: Any = Stream(events)
    heard = Heard()
    parts = AnswerParts(heard, UsedSecrets())
    completion = StreamedCompletion(parts=parts, takes_calls=True)
    await read_completion(arriving, api, completion, 65_536)
    assert (completion.text, completion.finish_reason) == ("Hm.", "tool_calls")
    assert list(completion.calls.values()) == [CALL]
    assert not completion.is_cut
    assert heard.text == "Hm."
    assert heard.calls == [CALL]


@pytest.mark.parametrize(
    "events",
    [
        [piece("0", id="a", function={"name": "f", "arguments": "{}"})],
        [piece(2**40, id="a", function={"name": "f", "arguments": "{}"})],
        [piece(-1, id="a", function={"name": "f", "arguments": "{}"})],
        [piece(0, id=7, function={"name": "f", "arguments": "{}"})],
        [piece(0, id="a", function={"name": ["f"], "arguments": {}})],
    ],
)
async def test_calls_that_no_api_sends_are_a_failure_of_the_server(
    events: list[dict[str, Any]],
) -> None:
    arriving: Any = Stream([*events, chunk({}, "tool_calls")])
    parts = AnswerParts(Heard(), UsedSecrets())
    with pytest.raises(CallFailed, match="something else than its API promises"):
        completion = StreamedCompletion(parts=parts, takes_calls=True)
        await read_completion(arriving, OpenAiChat(), completion, 65_536)


class Heard:
    def __init__(self) -> None:
        self.text = ""
        self._calls: dict[int, ModelFunctionCall] = {}

    @property
    def calls(self) -> list[ModelFunctionCall]:
        return list(self._calls.values())

    def sent(self, usage: object, *, timed: bool) -> None: ...

    def wrote(self, text: str) -> None:
        self.text += text

    def called(self, index: int, part: ModelFunctionCall) -> None:
        known = self._calls.get(index, ModelFunctionCall("", "", ""))
        self._calls[index] = ModelFunctionCall(
            known.id or part.id, known.name or part.name, known.arguments + part.arguments
        )


SECRET = "sk-Ab9+/secret"


@given(
    st.lists(st.sampled_from(["so ", "x", "sk-", SECRET[:5], "Ab9", "\n", "漢字"]), max_size=6),
    st.lists(st.sampled_from(["so ", "x", "sk-", "!"]), max_size=6),
    st.data(),
)
def test_a_secret_is_passed_on_in_no_part(
    before: list[str], after: list[str], data: st.DataObject
) -> None:
    text = "".join([*before, SECRET, *after])
    secrets, heard = UsedSecrets(), Heard()
    secrets.add(SECRET)
    parts = AnswerParts(heard, secrets)
    place = 0
    while place < len(text):
        size = data.draw(st.integers(1, 6))
        parts.write(text[place : place + size])
        place += size
    parts.end()
    assert SECRET not in heard.text
    assert heard.text == secrets.redact(text)


def test_a_character_that_was_cut_in_two_is_passed_on_whole() -> None:
    secrets, heard = UsedSecrets(), Heard()
    parts = AnswerParts(heard, secrets)
    parts.write("Mars \ud83d")
    assert heard.text == "Mars "
    parts.write("\ude00!")
    parts.end()
    assert heard.text == "Mars \U0001f600!"


def test_text_without_a_secret_in_sight_is_not_withheld() -> None:
    secrets, heard = UsedSecrets(), Heard()
    secrets.add(SECRET)
    parts = AnswerParts(heard, secrets)
    parts.write("Mars has ")
    assert heard.text == "Mars has "
    parts.write("two")
    assert heard.text == "Mars has "
    parts.write(" moons, ")
    assert heard.text == "Mars has two moons, "
