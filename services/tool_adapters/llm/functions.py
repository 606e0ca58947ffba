"""Functions, their calls and answers that fit a schema, as each API of language models has them.

Sources: OpenAI's API references of chat completions and of responses, Anthropic's of messages.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from tool_adapters.adapter import (
    AnswerOptions,
    FunctionChoice,
    ModelFunction,
    ModelFunctionCall,
    ModelMessage,
)
from tool_adapters.llm.files import anthropic_content, openai_content, responses_content
from tool_adapters.models import JsonObject

ANSWER = "answer"
# An API asks for a schema of the arguments of a function that takes none, too.
NO_ARGUMENTS: JsonObject = {"type": "object", "properties": {}}
# Any object: servers without schemas know this form of an answer.
ANY_OBJECT = {"type": "object"}


def openai_message(message: ModelMessage) -> JsonObject:
    sent = {"role": message.role, "content": openai_content(message)}
    if message.role == "tool":
        return {**sent, "tool_call_id": message.call_id}
    if not message.function_calls:
        return sent
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in message.function_calls
    ]
    return {**sent, "content": sent["content"] or None, "tool_calls": calls}


def openai_options(options: AnswerOptions) -> JsonObject:
    named = {"type": "function", "function": {"name": options.function_name}}
    body = _choice(options, named) if options.functions else {}
    if options.functions:
        body["tools"] = [
            {"type": "function", "function": _function(tool, "parameters")}
            for tool in options.functions
        ]
    if options.answer_schema == ANY_OBJECT:
        body["response_format"] = {"type": "json_object"}
    elif options.answer_schema is not None:
        schema = {"name": ANSWER, "schema": options.answer_schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if options.stop:
        body["stop"] = list(options.stop)
    if options.top_logprobs is not None:
        body |= {"logprobs": True, "top_logprobs": options.top_logprobs}
    return body


def responses_items(message: ModelMessage) -> Iterator[JsonObject]:
    if message.role == "tool":
        result = {"call_id": message.call_id, "output": message.content}
        yield {"type": "function_call_output", **result}
        return
    if message.content or message.parts:
        yield {"role": message.role, "content": responses_content(message)}
    for call in message.function_calls:
        made = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
        yield {"type": "function_call", **made}


def responses_options(options: AnswerOptions) -> JsonObject:
    """Responses have no texts to stop at: the gateway cuts the answer."""
    named = {"type": "function", "name": options.function_name}
    body = _choice(options, named) if options.functions else {}
    if options.functions:
        # A schema is held to by default, and then each of its fields has to be required.
        body["tools"] = [
            {"type": "function", **_function(tool, "parameters"), "strict": tool.strict}
            for tool in options.functions
        ]
    if options.answer_schema == ANY_OBJECT:
        body["text"] = {"format": {"type": "json_object"}}
    elif options.answer_schema is not None:
        schema = {"type": "json_schema", "name": ANSWER, "schema": options.answer_schema}
        body["text"] = {"format": schema}
    return body


def anthropic_messages(messages: Sequence[ModelMessage]) -> list[JsonObject]:
    """Results of calls are the user's, in one message with what the user says next."""
    sent: list[JsonObject] = []
    for message in messages:
        if message.role == "tool":
            result = {"tool_use_id": message.call_id, "content": message.content}
            blocks: Any = [{"type": "tool_result", **result}]
        else:
            blocks = _anthropic_blocks(message)
        role = "user" if message.role == "tool" else message.role
        if sent and sent[-1]["role"] == role == "user" and _has_results(sent[-1]):
            sent[-1]["content"] += _as_blocks(blocks)
        else:
            sent.append({"role": role, "content": blocks})
    return sent


def anthropic_options(options: AnswerOptions) -> JsonObject:
    body: JsonObject = {}
    if options.functions:
        body["tools"] = [_function(tool, "input_schema") for tool in options.functions]
        choice: JsonObject = {"type": "auto"}
        if options.function_name:
            choice = {"type": "tool", "name": options.function_name}
        elif options.choice is not FunctionChoice.AUTO:
            required = options.choice is FunctionChoice.REQUIRED
            choice = {"type": "any" if required else "none"}
        if options.single_call and choice["type"] != "none":
            choice["disable_parallel_tool_use"] = True
        body["tool_choice"] = choice
    if options.answer_schema is not None:
        schema = {"type": "json_schema", "schema": options.answer_schema}
        body["output_config"] = {"format": schema}
    if options.stop:
        body["stop_sequences"] = list(options.stop)
    return body


def _choice(options: AnswerOptions, named: JsonObject) -> JsonObject:
    choice = named if options.function_name else options.choice.value
    single = {"parallel_tool_calls": False} if options.single_call else {}
    return {"tool_choice": choice, **single}


def _function(tool: ModelFunction, schema: str) -> JsonObject:
    parameters = json.loads(tool.parameters_schema) if tool.parameters_schema else NO_ARGUMENTS
    described = {"description": tool.description} if tool.description else {}
    strict = {"strict": True} if tool.strict else {}
    return {"name": tool.name, **described, schema: parameters, **strict}


def _anthropic_blocks(message: ModelMessage) -> str | list[JsonObject]:
    content = anthropic_content(message)
    if not message.function_calls:
        return content
    return [*(_as_blocks(content) if content else []), *map(_tool_use, message.function_calls)]


def _tool_use(call: ModelFunctionCall) -> JsonObject:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call.arguments)}


def _input(arguments: str) -> JsonObject:
    """The arguments as an object; a model may have written anything."""
    try:
        given = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        given = None
    return given if isinstance(given, dict) else {"arguments": arguments}


def _as_blocks(content: str | list[JsonObject]) -> list[JsonObject]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _has_results(message: JsonObject) -> bool:
    blocks = message["content"]
    return isinstance(blocks, list) and blocks[0]["type"] == "tool_result"
