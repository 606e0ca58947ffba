import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import httpx
import pytest
from anthropic.types.beta.message_create_params import (
    MessageCreateParamsBase as BetaMessageCreateParamsBase,
)
from anthropic.types.message_create_params import MessageCreateParamsBase
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from openai.types import EmbeddingCreateParams
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from pydantic import BaseModel, ValidationError
from starlette.responses import JSONResponse

from callers import make_identity
from episodes.admission.checks import check_spec
from gateway.audit.redaction import REDACTED, redacted
from gateway.chat.answer_schemas import AnswerSchema, _enforceable, enforceable
from gateway.chat.catalogue import Choice
from gateway.chat.parameters import CHAT
from gateway.chat.request import ChatRequest
from gateway.embeddings.request import EMBEDDINGS, EmbeddingRequest
from gateway.errors import InvalidAnswerSchema, InvalidChat, MalformedRequest, UnsupportedParameter
from gateway.http.error_responses import error_response, malformed_request
from gateway.http.request_body import require_texts
from gateway.messages.parameters import MESSAGES
from gateway.messages.request import MessageRequest
from gateway.parameters import ApiParameters, Treatment, ignored_header
from gateway.responses.parameters import RESPONSES
from gateway.responses.request import ResponseRequest
from gateway.rest.messages import merge_body, merge_query, to_json
from podium.episodes.v1 import episode_pb2, episode_service_pb2
from podium.ledger.v1 import cost_ledger_service_pb2, price_book_service_pb2
from podium.registry.v1 import policy_service_pb2, tool_registry_service_pb2
from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.identity import Role, acting_as

REQUESTS = Path(__file__).parents[2] / "data" / "client_requests"
PODIUM = Choice("", "")


def sent(name: str) -> Any:
    return json.loads((REQUESTS / f"{name}.json").read_text())


def test_codex_is_understood() -> None:
    """Public report 49."""
    request = ResponseRequest.model_validate(sent("codex"))
    assert request.ignored() == (
        *("reasoning", "store", "include", "service_tier"),
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


CHAT_BODY = {"model": "podium", "messages": [{"role": "user", "content": "hi"}]}
MESSAGE = {**CHAT_BODY, "max_tokens": 9}
RESPONSE = {"model": "podium", "input": "hi"}


@pytest.mark.parametrize(
    ("request_type", "body"),
    [
        (ChatRequest, {**CHAT_BODY, "moderation": {"model": "omni"}}),
        (ChatRequest, {**CHAT_BODY, "logit_bias": {"1": 1}}),
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


JSON = "application/json"


def app() -> FastAPI:
    made = FastAPI(dependencies=[Depends(require_texts)])

    @made.post("/")
    async def ask(body: ChatRequest) -> dict[str, str]:
        return {"model": body.model}

    @made.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        return error_response(malformed_request(error))

    return made


async def send(body: bytes, content_type: str = JSON) -> httpx.Response:
    transport = httpx.ASGITransport(app())
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
        return await http.post("/", content=body, headers={"content-type": content_type})


@pytest.mark.parametrize(
    ("body", "content_type", "words"),
    [
        # As `curl -d` sends it.
        (b'{"model": "podium"}', "application/x-www-form-urlencoded", "header Content-Type: app"),
        (b'{"model": "podium",}', JSON, "is not JSON: Expecting property name"),
        (b'{"model": "podium",}', JSON, "at character 19"),
        (b"[1]", JSON, "must be a JSON object"),
        (b"", JSON, "must be a JSON object"),
    ],
)
async def test_the_fix_is_named_and_no_parameter(
    body: bytes, content_type: str, words: str
) -> None:
    reply = await send(body, content_type)
    error = reply.json()["error"]
    assert (reply.status_code, error["param"]) == (400, None)
    assert words in error["message"]


@pytest.mark.parametrize("text", [r"\ud83d", r"\uDE00", r"\ud83d \ude00", r"\ude00\ud83d"])
async def test_half_a_character_is_found_wherever_it_is(text: str) -> None:
    schema = f'{{"type": "object", "description": "{text}"}}'
    with pytest.raises(UnicodeEncodeError):
        await send(f'{{"model": "podium", "schema": {schema}}}'.encode())


@pytest.mark.parametrize("text", [r"\ud83d\ude00", r"\uD83D\uDE00\ud83d\ude00", r"\\ud83d"])
async def test_a_whole_character_is_none(text: str) -> None:
    body = f'{{"model": "{text}", "messages": [{{"role": "user", "content": "6*7?"}}]}}'
    assert (await send(body.encode())).status_code == 200


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"Authorization": "Bearer abc"}, {"Authorization": REDACTED}),
        ({"headers": [{"x-api-key": "abc"}]}, {"headers": [{"x-api-key": REDACTED}]}),
        ({"password": ""}, {"password": ""}),
        # A reference names a secret; it is not one.
        ({"secret": {"name": "engine"}}, {"secret": {"name": "engine"}}),
        ({"max_tokens": 5, "name": "weather"}, {"max_tokens": 5, "name": "weather"}),
        ({"note": f"use pod_{'0' * 16}_abc please"}, {"note": f"use {REDACTED} please"}),
        ({"note": "eyJhbGciOi.eyJzdWIi.c2ln"}, {"note": REDACTED}),
        ({"roles": [Role.DEVELOPER]}, {"roles": ["developer"]}),
        ({"half \ud83d": "half \ud83d"}, {"half \ud83d": "half \ufffd"}),
        # Quadratic for patterns that go back: it would keep every tenant waiting for minutes.
        ({"description": "eyJ-" * 1_000_000}, {"description": "eyJ-" * 1_000_000}),
        (None, None),
    ],
)
def test_secrets_are_redacted_and_the_rest_stays(value: Any, shown: Any) -> None:
    assert redacted(value) == shown


def test_a_dot_reaches_into_a_message() -> None:
    request = policy_service_pb2.ExplainToolsetRequest()
    merge_query(request, [("spec.name", "mine"), ("spec.required_tags", "on-premise")])
    assert (request.spec.name, list(request.spec.required_tags)) == ("mine", ["on-premise"])


def test_a_label_may_have_dots_of_its_own() -> None:
    request = episode_service_pb2.ListEpisodesRequest()
    merge_query(request, [("filter.labels.app.team", "search")])
    assert dict(request.filter.labels) == {"app.team": "search"}


@pytest.mark.parametrize(
    "query",
    [
        ("include_deprecated", "perhaps"),
        ("page_size", "4.5"),
        ("kinds", "TOOL_KIND_MAGIC"),
        ("query.words", "a"),
        ("", "a"),
    ],
)
def test_a_value_that_does_not_fit_is_rejected(query: tuple[str, str]) -> None:
    with pytest.raises(MalformedRequest):
        merge_query(tool_registry_service_pb2.ListToolsRequest(), [query])


@pytest.mark.parametrize(
    "query",
    [
        [("labels", "search"), ("labels.team", "search")],
        [("labels.team", "search"), ("labels", "search")],
    ],
)
def test_a_field_given_as_a_whole_and_in_parts_is_rejected(query: list[tuple[str, str]]) -> None:
    with pytest.raises(MalformedRequest):
        merge_query(episode_service_pb2.ListEpisodesRequest(), query)


def test_a_list_of_messages_cannot_be_written_as_a_query() -> None:
    query = [("specs.sku", "a"), ("specs", "b")]
    with pytest.raises(MalformedRequest):
        merge_query(price_book_service_pb2.CreatePricesRequest(), query)


def test_an_empty_body_is_an_empty_message() -> None:
    request = tool_registry_service_pb2.DeprecateToolRequest(name="calculator")
    merge_body(request, b"  ")
    assert request.name == "calculator"


@pytest.mark.parametrize(
    "body", [b"null", b'"text"', b"\xff", b'{"name": {}}', b'{"name": "\\ud800"}', b"[" * 100_000]
)
def test_a_body_that_is_no_such_object_is_rejected(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        merge_body(tool_registry_service_pb2.DeprecateToolRequest(), body)


def test_unset_fields_are_shown_except_those_whose_absence_means_something() -> None:
    shown = json.loads(to_json(cost_ledger_service_pb2.ReportSpendRequest()))
    assert shown["page_size"] == 0
    assert shown["group_by"] == []
    assert "start_time" not in shown


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "x"}


@pytest.mark.parametrize(
    "request_",
    [
        MessageRequest.model_validate(
            {
                "model": "podium",
                "max_tokens": 9,
                "messages": [{"role": "user", "content": [THOUGHT]}],
            }
        ),
        ResponseRequest.model_validate(
            {"model": "podium", "input": [{"type": "reasoning", "id": "rs_1", "summary": []}]}
        ),
    ],
)
def test_thoughts_alone_are_no_task(request_: MessageRequest | ResponseRequest) -> None:
    assert request_.results() is None
    with pytest.raises(InvalidChat, match="the task is empty"):
        request_.order(Choice("", ""))


SAID: dict[str, Any] = {"model": "podium", "messages": [{"role": "user", "content": "6*7?"}]}
ANTHROPIC: dict[str, Any] = {**SAID, "max_tokens": 9}
ASKED: dict[str, Any] = {"model": "podium", "input": "6*7?"}


def disabled(value: bool | None) -> dict[str, Any]:
    return {"tool_choice": {"type": "auto", "disable_parallel_tool_use": value}}


@pytest.mark.parametrize(
    ("request_type", "asked", "parallel", "one"),
    [
        (ChatRequest, SAID, {"parallel_tool_calls": True}, {"parallel_tool_calls": False}),
        (ChatRequest, SAID, {"parallel_tool_calls": None}, {"parallel_tool_calls": False}),
        (ResponseRequest, ASKED, {"parallel_tool_calls": True}, {"parallel_tool_calls": False}),
        (ResponseRequest, ASKED, {"parallel_tool_calls": None}, {"parallel_tool_calls": False}),
        (MessageRequest, ANTHROPIC, disabled(False), disabled(True)),
        (MessageRequest, ANTHROPIC, disabled(None), disabled(True)),
    ],
)
def test_a_client_may_rule_out_parallel_calls_and_else_limits_them_by_number(
    request_type: type[ChatRequest | ResponseRequest | MessageRequest],
    asked: dict[str, Any],
    parallel: dict[str, Any],
    one: dict[str, Any],
) -> None:
    limits = [{}, parallel, one]
    options: list[dict[str, Any]] = [{}, {"podium": {"parallel_calls": 3}}]
    found = [
        [
            request_type.model_validate({**asked, **limit, **option}).order(PODIUM).parallel_calls
            for option in options
        ]
        for limit in limits
    ]
    assert found == [[0, 3], [0, 3], [1, 1]]


CLIENTS = Path(__file__).parents[3] / "docs" / "clients.md"
APIS = [
    (CHAT, ChatRequest),
    (RESPONSES, ResponseRequest),
    (MESSAGES, MessageRequest),
    (EMBEDDINGS, EmbeddingRequest),
]


@pytest.mark.parametrize(("parameters", "request_type"), APIS)
def test_the_documented_table_is_the_one_of_the_code(
    parameters: ApiParameters, request_type: type[BaseModel]
) -> None:
    table = parameters.table()
    assert table in CLIENTS.read_text(), f"docs/clients.md lacks this table:\n{table}"


@pytest.mark.parametrize(("parameters", "request_type"), APIS)
def test_what_is_honoured_is_what_the_request_reads(
    parameters: ApiParameters, request_type: type[BaseModel]
) -> None:
    assert sorted(parameters.names(Treatment.HONOURED)) == sorted(request_type.model_fields)
    every = [name for row in parameters.rows for name in row.names]
    assert len(every) == len(set(every))


@pytest.mark.parametrize("parameters", [CHAT, RESPONSES, MESSAGES, EMBEDDINGS])
def test_what_is_ignored_passes_and_what_is_rejected_names_its_fix(
    parameters: ApiParameters,
) -> None:
    ignored = parameters.names(Treatment.IGNORED)
    assert parameters.check(dict.fromkeys(ignored, "anything")) == tuple(ignored)
    assert parameters.check({**dict.fromkeys(ignored, None), "temprature": 1}) == ("temprature",)
    for row in parameters.rows:
        if row.treatment is Treatment.REJECTED:
            for name in row.names:
                parameters.check(dict.fromkeys([name], None))
                for neutral in row.neutral:
                    parameters.check({name: neutral})
                with pytest.raises(UnsupportedParameter, match=name) as raised:
                    parameters.check({name: "anything"})
                assert row.words in raised.value.message


def fields_of(params: Any) -> set[str]:
    return {name for base in params.__mro__ for name in getattr(base, "__annotations__", {})}


@pytest.mark.parametrize(
    ("parameters", "params"),
    [
        (CHAT, CompletionCreateParamsBase),
        (RESPONSES, ResponseCreateParamsBase),
        (EMBEDDINGS, EmbeddingCreateParams),
        (MESSAGES, MessageCreateParamsBase),
        (MESSAGES, BetaMessageCreateParamsBase),
    ],
)
def test_every_parameter_of_the_clients_libraries_has_a_treatment(
    parameters: ApiParameters, params: Any
) -> None:
    """Public report 49's class: one that is new in a library is decided, and not just ignored."""
    known = {name for row in parameters.rows for name in row.names}
    assert not fields_of(params) - known


def test_the_header_holds_names_of_any_kind_and_number() -> None:
    assert ignored_header(()) == {}
    named = ignored_header(["a", "a", "b\r\nX: 1", "ä", "tools[0]:web_search", "x" * 99])
    assert named == {
        "x-podium-ignored": f"a, b%0D%0AX:%201, %C3%A4, tools[0]:web_search, {'x' * 60}"
    }
    assert ignored_header(f"n{at}" for at in range(99))["x-podium-ignored"].endswith("and 69 more")
    assert ignored_header(["\ud83d"]) == {"x-podium-ignored": "%3F"}
    # Clients read headers of a few kilobytes alone.
    assert len(str(ignored_header(f"{at}{'ä' * 99}" for at in range(99)))) < 2_000


def test_null_is_a_flag_that_is_not_given() -> None:
    unset = {"model": "podium", "stream": None}
    chat = ChatRequest.model_validate(
        {**unset, "messages": [{"role": "user", "content": "6*7?"}], "stream_options": {}}
    )
    response = ResponseRequest.model_validate({**unset, "input": "6*7?", "background": None})
    assert not (chat.stream or response.stream or response.background)


LOOK_AHEAD = r"^(?!\.)[^@]+@[^@]+$"
NODE = {"type": "object", "properties": {"parts": {"type": "array", "items": {"$ref": "#"}}}}
PYDANTIC_TREE = {
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "parts": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            },
            "required": ["name", "parts"],
        }
    },
    "$ref": "#/$defs/Node",
}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


async def read(schema: Any) -> AnswerSchema:
    with acting_as(make_identity()):
        return await enforceable(json.dumps(schema), "response_format")


@pytest.mark.parametrize(
    ("schema", "loosened"),
    [
        (NODE, ("$.$defs.root",)),
        (PYDANTIC_TREE, ("$.$defs.Node",)),
        (
            of(mail={"type": "string", "pattern": LOOK_AHEAD}, n={"type": "integer"}),
            ("$.properties.mail.pattern",),
        ),
        (of(day={"type": "string", "format": "weekday"}), ("$.properties.day.format",)),
        (of(at={"$ref": "https://example.com/place.json"}), ("$.properties.at.$ref",)),
        ({"properties": {"n": {"type": "integer"}}}, ()),
        (of(n={"type": "integer"}), ()),
    ],
)
async def test_what_an_answer_cannot_be_held_to_is_loosened_and_named(
    schema: dict[str, Any], loosened: tuple[str, ...]
) -> None:
    """Public reports 22 and 29."""
    found = await read(schema)
    assert found.loosened == loosened
    # The service of episodes takes it.
    check_spec(episode_pb2.EpisodeSpec(task="Where?", answer_json_schema=found.text))


async def test_what_can_be_enforced_stays_as_it_is() -> None:
    schema = of(kind={"oneOf": [{"const": "a"}, {"type": "string", "format": "date"}]})
    assert (await read(schema)).text == json.dumps(schema)
    kept = json.loads((await read(of(mail={"pattern": LOOK_AHEAD}, n={"minimum": 3}))).text)
    assert kept["properties"]["n"] == {"minimum": 3}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "array"}, r"of response_format .* \$\.type: the root must be an object"),
        (of(a={"description": "x" * 65_536}), "at most 65536"),
    ],
)
async def test_what_no_answer_can_be_held_to_is_rejected_by_its_parameter(
    schema: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidAnswerSchema, match=problem) as rejected:
        await read(schema)
    assert rejected.value.metadata["param"] == "response_format"


async def test_others_are_served_while_a_costly_schema_is_read() -> None:
    alternatives = {"anyOf": [{}] * 50, "type": ["string", "object", "array"]}
    reading = asyncio.create_task(read(of(**{f"p{at}": alternatives for at in range(50)})))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    # On the event loop itself it would have been done after one.
    assert turns > 10
    assert (await reading).loosened == ("$",)


async def test_the_places_of_a_long_name_take_little_memory() -> None:
    """Each of 2,000 places below one name of 32,000 characters would name it again."""
    schema = of(**{"n" * 32_000: of(**{f"{number:x}": 1 for number in range(2_000)})})
    few = of(**{f"{number:x}": {"type": "string", "format": "odd"} for number in range(500)})
    for wanted in (schema, few):
        answer = await read(wanted)
        assert answer.loosened
        assert sum(map(len, answer.loosened)) < 50_000


async def test_an_unusable_schema_is_read_once() -> None:
    schema = {"type": "array", "title": "read once"}
    misses = _enforceable.cache_info().misses
    for _ in range(3):
        with pytest.raises(InvalidAnswerSchema, match="must be an object"):
            await read(schema)
    assert _enforceable.cache_info().misses == misses + 1


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values of a JSON document, outermost first."""
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    for name, part in parts:
        yield (*path, name)
        if isinstance(part, dict | list):
            yield from places(part, (*path, name))


@pytest.mark.parametrize("name", sorted(path.stem for path in REQUESTS.glob("*.json")))
@pytest.mark.parametrize("odd", [{}, [], 7, None, {"type": {}}], ids=repr)
@pytest.mark.parametrize("request_type", [ChatRequest, ResponseRequest, MessageRequest])
def test_any_value_at_any_place_is_understood_or_rejected(
    request_type: type[ChatRequest | ResponseRequest | MessageRequest], odd: Any, name: str
) -> None:
    for *above, last in places(sent(name)):
        body = sent(name)
        reduce(getitem, above, body)[last] = odd
        with suppress(ValidationError, DomainError):
            request = request_type.model_validate(body)
            request.ignored()
            request.order(PODIUM)
