"""`response_format`: answers as JSON, as OpenAI's clients ask for them."""

import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessageParam
from pydantic import BaseModel

from integration.gateway.gateway_under_test import GatewayUnderTest
from integration.gateway.scripted_episodes import make_finish

TASK: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Where is Lyon?"}]
DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}


class Place(BaseModel):
    city: str
    country: str


async def test_a_client_parses_the_answer_into_its_own_type(gateway: GatewayUnderTest) -> None:
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
    gateway: GatewayUnderTest, wanted: Any, schema: str
) -> None:
    async with gateway.openai() as client:
        await client.chat.completions.create(model="podium", messages=TASK, response_format=wanted)
    [running] = gateway.episodes.episodes.values()
    assert running.request.spec.answer_json_schema == schema
