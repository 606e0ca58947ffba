import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gateway.chat.catalogue import Choice
from gateway.chat.request import ChatRequest
from gateway.errors import UnsupportedParameter
from gateway.messages.request import MessageRequest
from gateway.responses.request import ResponseRequest

REQUESTS = Path(__file__).parents[2] / "data" / "client_requests"
PODIUM = Choice("", "")


def sent(name: str) -> Any:
    return json.loads((REQUESTS / f"{name}.json").read_text())


def test_codex_is_understood() -> None:
    """Public report 49."""
    request = ResponseRequest.model_validate(sent("codex"))
    assert request.ignored() == (
        *("parallel_tool_calls", "reasoning", "store", "include", "service_tier"),
        *("prompt_cache_key", "client_metadata"),
        *("tools[2]:web_search", "tools[3]:local_shell", "tools[4]:namespace"),
        *("tools[1].format:grammar", "input[3]:web_search_call"),
    )
    order = request.order(PODIUM)
    assert [tool.name for tool in order.client_tools] == ["shell", "apply_patch"]
    assert "And now?" in order.task
    said = " ".join(message.content for message in order.history)
    for words in ("coding agent", "Fix the typo", "*** Begin Patch", "Done"):
        assert words in said
    # What the model is not shown is named.
    assert "(input_image image/png, about 9 bytes, is not shown)" in said


def test_vs_code_is_understood() -> None:
    """Public report 49."""
    request = ResponseRequest.model_validate(sent("vscode"))
    assert {"prompt_cache_options", "context_management"} <= set(request.ignored())
    order = request.order(PODIUM)
    assert [tool.name for tool in order.client_tools] == ["read_file"]
    assert order.max_tokens == 16384


def test_claude_code_is_understood() -> None:
    """Public report 49's class."""
    request = MessageRequest.model_validate(sent("claude_code"))
    assert request.ignored() == (
        *("metadata", "thinking", "context_management", "speed", "betas"),
        *("tools[2]:web_search_20260209", "tools[3]:tool_search_tool_regex_20251119"),
        *(
            "messages[3].content[0]:server_tool_use",
            "messages[3].content[1]:web_search_tool_result",
        ),
    )
    order = request.order(PODIUM)
    assert [tool.name for tool in order.client_tools] == ["Read", "Bash"]
    assert "And the colour?" in order.task
    said = " ".join(message.content for message in order.history)
    for words in (
        "You are an agent.",
        "Read the logo.",
        "It is a logo.",
        "The user opened a file.",
    ):
        assert words in said
    assert "(image image/png, about 9 bytes, is not shown)" in said


def test_an_answer_of_messages_fits_the_schema_that_is_asked_for() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    asked = {"model": "podium", "max_tokens": 9, "messages": [{"role": "user", "content": "6*7?"}]}
    config = {"effort": "low", "format": {"type": "json_schema", "schema": schema}}
    order = MessageRequest.model_validate({**asked, "output_config": config}).order(PODIUM)
    assert json.loads(order.answer_schema) == schema


def test_chat_tools_of_other_types_are_not_offered() -> None:
    function = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    patch = {"name": "patch", "format": {"type": "grammar", "grammar": {}}}
    tools = [{"type": "custom", "custom": patch}, function, {"type": "web_search"}]
    request = ChatRequest.model_validate(
        {"model": "podium", "messages": [{"role": "user", "content": "hi"}], "tools": tools, "x": 1}
    )
    assert [tool.name for tool in request.order(PODIUM).client_tools] == ["patch", "look"]
    assert request.ignored() == ("x", "tools[0].custom.format:grammar", "tools[2]:web_search")


CHAT = {"model": "podium", "messages": [{"role": "user", "content": "hi"}]}
MESSAGE = {**CHAT, "max_tokens": 9}
RESPONSE = {"model": "podium", "input": "hi"}


@pytest.mark.parametrize(
    ("request_type", "body"),
    [
        (ChatRequest, {**CHAT, "moderation": {"model": "omni"}}),
        (ChatRequest, {**CHAT, "logit_bias": {"1": 1}}),
        (ResponseRequest, {**RESPONSE, "prompt": {"id": "p"}}),
        (ResponseRequest, {**RESPONSE, "max_tool_calls": 1}),
        (MessageRequest, {**MESSAGE, "inference_geo": "eu"}),
        (MessageRequest, {**MESSAGE, "mcp_servers": [{"url": "https://x"}]}),
    ],
)
def test_what_would_change_the_meaning_is_still_rejected(
    request_type: type[ChatRequest | ResponseRequest | MessageRequest], body: dict[str, Any]
) -> None:
    with pytest.raises(UnsupportedParameter):
        request_type.model_validate(body).ignored()


@pytest.mark.parametrize(
    ("request_type", "body"),
    [
        (ResponseRequest, {"model": "podium", "input": [{"type": "item_reference", "id": "i"}]}),
        (ResponseRequest, {**RESPONSE, "tool_choice": {"type": "web_search"}}),
        (MessageRequest, {**MESSAGE, "messages": [{"role": "user", "content": [{"type": "x"}]}]}),
    ],
)
def test_content_of_an_unknown_kind_is_still_rejected(
    request_type: type[ResponseRequest | MessageRequest], body: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError):
        request_type.model_validate(body)
