import asyncio
import json
import os

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

import features
import openai
from agents import Agent, OpenAIResponsesModel, Runner, function_tool
from pydantic import BaseModel

client = openai.OpenAI(base_url=features.URL, api_key=features.KEY)
weather = function_tool(features.get_weather)
WEATHER = {"type": "function", **features.WEATHER}


class Place(BaseModel):
    city: str
    country: str


def agent() -> Agent:
    asynchronous = openai.AsyncOpenAI(base_url=features.URL, api_key=features.KEY, max_retries=0)
    model = OpenAIResponsesModel(model=features.MODEL, openai_client=asynchronous)
    return Agent(name="clerk", instructions="Be brief.", model=model, tools=[weather])


async def streamed_agent() -> object:
    running = Runner.run_streamed(agent(), features.TOOL_QUESTION)
    async for _ in running.stream_events():
        pass
    return running.final_output


def chat() -> None:
    first = client.responses.create(model=features.MODEL, input=features.QUESTION)
    features.check(first.output_text, features.ANSWER)
    again = client.responses.create(
        model=features.MODEL, input=features.QUESTION, previous_response_id=first.id
    )
    features.check(again.output_text, features.ANSWER)


def stream() -> None:
    events = client.responses.create(model=features.MODEL, input=features.QUESTION, stream=True)
    features.check_pieces(
        event.delta for event in events if event.type == "response.output_text.delta"
    )


def tools() -> None:
    asked = client.responses.create(
        model=features.MODEL, input=features.TOOL_QUESTION, tools=[WEATHER]
    )
    results = [
        {
            "type": "function_call_output",
            "call_id": call.call_id,
            "output": features.get_weather(**json.loads(call.arguments)),
        }
        for call in asked.output
    ]
    if features.MODEL == features.DIRECT:
        # Nothing is stored of a model without an orchestrator: the conversation is sent again.
        calls = [call.model_dump() for call in asked.output]
        before = {"input": [{"role": "user", "content": features.TOOL_QUESTION}, *calls, *results]}
    else:
        before = {"input": results, "previous_response_id": asked.id}
    reply = client.responses.create(model=features.MODEL, tools=[WEATHER], **before)
    features.check(reply.output_text, features.TOOL_ANSWER)
    ran = Runner.run_sync(agent(), features.TOOL_QUESTION)
    features.check(ran.final_output, features.TOOL_ANSWER)


def streamed_tools() -> None:
    features.check(asyncio.run(streamed_agent()), features.TOOL_ANSWER)


def structured() -> None:
    reply = client.responses.parse(
        model=features.MODEL, input=features.JSON_QUESTION, text_format=Place
    )
    features.check(reply.output_parsed, Place(**features.PLACE))


def images() -> None:
    parts = [
        {"type": "input_text", "text": features.IMAGE_QUESTION},
        {"type": "input_image", "image_url": features.PICTURE},
    ]
    reply = client.responses.create(
        model=features.MODEL, input=[{"role": "user", "content": parts}]
    )
    features.check(reply.output_text, features.IMAGE_ANSWER)


def cancel() -> None:
    question = features.slow_question()
    begun = client.responses.create(model=features.MODEL, input=question, background=True)
    features.check(begun.status, "in_progress")
    features.check(client.responses.cancel(begun.id).status, "cancelled")
    features.ends(question, features.CANCELLED)
    question = features.slow_question()
    with client.responses.create(model=features.MODEL, input=question, stream=True) as events:
        next(iter(events))
    features.ends(question, features.CANCELLED)


def errors() -> None:
    stranger = client.with_options(api_key="pod_wrong_key")
    with features.gives_up(openai.AuthenticationError):
        stranger.responses.create(model=features.MODEL, input=features.QUESTION)


features.report(chat, stream, tools, streamed_tools, structured, images, errors, cancel)
features.report_direct(stream, tools)
