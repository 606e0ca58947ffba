import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessageParam
from pydantic import BaseModel

from integration.gateway.gateway_under_test import Gateway
from integration.gateway.scripted_episodes import make_finish

TASK: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Where is Lyon?"}]
DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}


class Place(BaseModel):
    city: str
    country: str


async def test_a_client_parses_the_answer_into_its_own_type(gateway: Gateway) -> None:
    lyon = {"city": "Lyon", "country": "France"}
    gateway.episodes.script = lambda request: [make_finish(answer=json.dumps(lyon))]
    async with gateway.openai() as client:
        reply = await client.chat.completions.parse(
            model="podium", messages=TASK, response_format=Place
        )
    assert reply.choices[0].message.parsed == Place(city="Lyon", country="France")
    [running] = gateway.episodes.episodes.values()
    schema = json.loads(running.request.spec.answer_json_schema)
    assert schema["properties"].keys() == {"city", "country"} and schema["type"] == "object"


@pytest.mark.parametrize(
    ("wanted", "schema"),
    [
        ({"type": "text"}, ""),
        ({"type": "json_object"}, '{"type": "object"}'),
        (
            {"type": "json_schema", "json_schema": {"name": "x", "schema": DRAFT_7}},
            '{"type": "object"}',
        ),
    ],
)
async def test_every_format_is_a_schema_of_the_answer_or_none(
    gateway: Gateway, wanted: Any, schema: str
) -> None:
    async with gateway.openai() as client:
        await client.chat.completions.create(model="podium", messages=TASK, response_format=wanted)
    [running] = gateway.episodes.episodes.values()
    assert running.request.spec.answer_json_schema == schema


async def test_what_is_not_enforced_of_a_schema_is_named_in_a_header(gateway: Gateway) -> None:
    properties = {"mail": {"type": "string", "pattern": "^(?!a)b"}, "next": {"$ref": "#"}}
    schema = {"type": "object", "properties": properties}
    named = {"type": "json_schema", "name": "x", "schema": schema}
    said: dict[str, Any] = {"model": "podium", "messages": TASK}
    bodies: dict[str, tuple[str, dict[str, Any]]] = {
        "/v1/chat/completions": (
            "response_format",
            {**said, "response_format": {"type": "json_schema", "json_schema": named}},
        ),
        "/v1/responses": (
            "text.format",
            {"model": "podium", "input": "Where?", "text": {"format": named}},
        ),
        "/v1/messages": (
            "output_config.format",
            {**said, "max_tokens": 99, "output_config": {"format": named}},
        ),
    }
    for path, (parameter, body) in bodies.items():
        for stream in (False, True):
            reply = await gateway.post(path, json={**body, "stream": stream})
            assert reply.status_code == 200, reply.text
            assert reply.headers["x-podium-ignored"].split(", ") == [
                f"{parameter}:$.properties.mail.pattern",
                f"{parameter}:$.$defs.root.properties.mail.pattern",
                f"{parameter}:$.$defs.root",
            ]
    for running in gateway.episodes.episodes.values():
        kept = json.loads(running.request.spec.answer_json_schema)
        assert kept["properties"]["mail"] == {"type": "string"}


async def test_a_schema_that_no_answer_fits_is_rejected_by_name(gateway: Gateway) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "array"}}}
    body = {"model": "podium", "messages": TASK, "response_format": wanted}
    reply = await gateway.post("/v1/chat/completions", json=body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "response_format")


async def test_places_of_a_functions_schema_that_are_not_enforced_are_named(
    gateway: Gateway,
) -> None:
    schema = {"type": "object", "properties": {"mail": {"type": "string", "pattern": "^(?!a)"}}}
    tools = [
        {"type": "function", "function": {"name": "find", "parameters": schema}},
        {"type": "function", "function": {"name": "look"}},
    ]
    said = [{"role": "user", "content": "Where?"}]
    body = {"model": "podium", "messages": said, "tools": tools}
    reply = await gateway.post("/v1/chat/completions", json=body)
    assert reply.headers["x-podium-ignored"] == "tools.find:$.properties.mail.pattern"
