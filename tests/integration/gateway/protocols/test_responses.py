import json
from typing import Any

import openai
import pytest
from openai.types.responses import FunctionToolParam, Response
from pydantic import BaseModel

from integration.gateway.gateway_under_test import Gateway
from integration.gateway.protocols.test_client_tools import ARGUMENTS, SCHEMA, asks, tells
from integration.gateway.scripted_episodes import make_failure, make_finish

WEATHER: FunctionToolParam = {
    "type": "function",
    "name": "getWeather",
    "description": "weather now",
    "parameters": SCHEMA,
    "strict": True,
}


class Place(BaseModel):
    city: str
    country: str


@pytest.fixture
def weather(gateway: Gateway) -> Gateway:
    gateway.episodes.script, gateway.episodes.sequel = asks, tells
    return gateway


def results(response: Response, *outputs: str) -> list[Any]:
    calls = [item for item in response.output if item.type == "function_call"]
    given = [
        {"type": "function_call_output", "call_id": call.call_id, "output": output}
        for call, output in zip(calls, outputs, strict=True)
    ]
    return [*(call.model_dump() for call in calls), *given]


async def test_the_answer_comes_with_usage_cost_and_episode(gateway: Gateway) -> None:
    async with gateway.openai() as client:
        reply = await client.responses.create(
            model="podium",
            input="6*7?",
            instructions="Be brief.",
            metadata={"team": "sums"},
            max_output_tokens=99,
        )
        found = await client.responses.retrieve(reply.id)
    assert reply.output_text == found.output_text == "The answer to '6*7?' is 42."
    assert (reply.status, found.status, reply.instructions) == (
        "completed",
        "completed",
        "Be brief.",
    )
    assert reply.usage and reply.usage.input_tokens_details.cached_tokens == 50
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (150, 25)
    [(episode_id, running)] = gateway.episodes.episodes.items()
    assert (reply.model_extra or {})["podium"]["episode_id"] == episode_id
    spec = running.request.spec
    assert [(each.role, each.content) for each in spec.history] == [("system", "Be brief.")]
    assert (dict(spec.labels), spec.sampling.max_tokens) == ({"team": "sums"}, 99)


async def test_a_response_goes_on_from_the_one_before(gateway: Gateway) -> None:
    async with gateway.openai() as client:
        first = await client.responses.create(model="podium", input="6*7?")
        await client.responses.create(
            model="podium", input="Doubled?", previous_response_id=first.id
        )
        with pytest.raises(openai.NotFoundError, match="there is no response resp_1"):
            await client.responses.create(
                model="podium", input="Doubled?", previous_response_id="resp_1"
            )
    spec = list(gateway.episodes.episodes.values())[1].request.spec
    assert spec.task == "Doubled?"
    said = [(each.role, each.content) for each in spec.history]
    assert said == [("user", "6*7?"), ("assistant", "The answer to '6*7?' is 42.")]


async def test_functions_of_the_client_are_called_and_answered(weather: Gateway) -> None:
    async with weather.openai() as client:
        first = await client.responses.create(
            model="podium", input="Is it warm?", tools=[WEATHER], tool_choice="required"
        )
        second = await client.responses.create(
            model="podium", input=[*results(first, "cold", "hot")], tools=[WEATHER]
        )
        again = await client.responses.retrieve(first.id)
    calls = [item for item in first.output if item.type == "function_call"]
    assert [(call.name, call.arguments) for call in calls] == [
        ("getWeather", arguments) for arguments in ARGUMENTS
    ]
    assert second.output_text == "It is cold and hot."
    assert first.id != second.id and again.output == first.output
    [running] = weather.episodes.episodes.values()
    assert list(running.request.spec.first_tool_names) == ["getWeather"]
    assert [each.content for each in weather.episodes.answers[0].results] == ["cold", "hot"]


async def test_a_stream_builds_the_answer_up(gateway: Gateway) -> None:
    async with (
        gateway.openai() as client,
        client.responses.stream(model="podium", input="6*7?") as stream,
    ):
        kinds = [event.type async for event in stream]
        whole = await stream.get_final_response()
    assert whole.output_text == "The answer to '6*7?' is 42."
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]


async def test_a_stream_builds_calls_up(weather: Gateway) -> None:
    async with (
        weather.openai() as client,
        client.responses.stream(model="podium", input="Is it warm?", tools=[WEATHER]) as stream,
    ):
        done = [
            event.item.arguments
            async for event in stream
            if event.type == "response.output_item.done" and event.item.type == "function_call"
        ]
    assert done == list(ARGUMENTS)


async def test_a_failure_in_a_stream_is_a_failed_response(gateway: Gateway) -> None:
    failure = make_failure("UNAVAILABLE", "no model answers")
    gateway.episodes.script = lambda request: [make_finish("FAILED", failure=failure)]
    async with gateway.openai() as client:
        stream = await client.responses.create(model="podium", input="6*7?", stream=True)
        last = [event async for event in stream][-1]
    assert last.type == "response.failed" and last.response.error
    assert "no model answers" in last.response.error.message


async def test_an_answer_is_parsed_into_the_clients_own_type(gateway: Gateway) -> None:
    lyon = {"city": "Lyon", "country": "France"}
    gateway.episodes.script = lambda request: [make_finish(answer=json.dumps(lyon))]
    async with gateway.openai() as client:
        reply = await client.responses.parse(
            model="podium", input="Where is Lyon?", text_format=Place
        )
    assert reply.output_parsed == Place(city="Lyon", country="France")
    [running] = gateway.episodes.episodes.values()
    assert json.loads(running.request.spec.answer_json_schema)["required"] == ["city", "country"]


async def test_in_the_background_it_runs_until_it_is_asked_for_or_cancelled(
    gateway: Gateway,
) -> None:
    gateway.episodes.script = lambda request: []
    async with gateway.openai() as client:
        reply = await client.responses.create(model="podium", input="6*7?", background=True)
        assert reply.status == "in_progress"
        assert (await client.responses.retrieve(reply.id)).status == "in_progress"
        cancelled = await client.responses.cancel(reply.id)
    assert cancelled.status == "cancelled"
    assert len(gateway.episodes.cancel_reasons) == 1


async def test_one_that_had_ended_is_not_cancelled(gateway: Gateway) -> None:
    async with gateway.openai() as client:
        reply = await client.responses.create(model="podium", input="6*7?")
        cancelled = await client.responses.cancel(reply.id)
    assert (cancelled.status, cancelled.output_text) == ("completed", reply.output_text)
    assert not gateway.episodes.cancel_reasons


async def test_a_limit_makes_it_incomplete(gateway: Gateway) -> None:
    gateway.episodes.script = lambda request: [make_finish("TURN_LIMIT", answer="so far")]
    async with gateway.openai() as client:
        reply = await client.responses.create(model="podium", input="6*7?")
    assert (reply.status, reply.output_text) == ("incomplete", "so far")
    assert reply.incomplete_details and reply.incomplete_details.reason == "max_output_tokens"


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        ({"input": []}, "input", "at least 1"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input", "send items of type"),
        ({"max_tool_calls": 3}, "max_tool_calls", "not supported"),
        ({"background": True, "stream": True}, "background", "a stream"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "input.0.message.content.0",
            "nothing is fetched",
        ),
    ],
)
async def test_a_bad_request_names_its_cause(
    gateway: Gateway, body: dict[str, object], param: str, words: str
) -> None:
    reply = await gateway.post("/v1/responses", json={"model": "podium", "input": "6*7?", **body})
    error = reply.json()["error"]
    assert reply.status_code == 400 and words in error["message"]
    assert str(error["param"]).startswith(param)
    assert not gateway.episodes.episodes


@pytest.mark.parametrize("name", ["resp_", "resp_" + "g" * 36, "x"])
async def test_an_id_that_is_none_is_not_found(gateway: Gateway, name: str) -> None:
    async with gateway.openai() as client:
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(name)
