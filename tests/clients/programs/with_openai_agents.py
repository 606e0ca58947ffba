import asyncio
import os

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

from collections.abc import Coroutine
from typing import Any

import features
import openai
from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
from pydantic import BaseModel

weather = function_tool(features.get_weather)


class Place(BaseModel):
    city: str
    country: str


def agent(key: str = features.KEY, **parts: Any) -> Agent:
    client = openai.AsyncOpenAI(base_url=features.URL, api_key=key, max_retries=0)
    model = OpenAIChatCompletionsModel(model=features.MODEL, openai_client=client)
    return Agent(name="clerk", instructions="Be brief.", model=model, **parts)


def ask(asked: Agent, question: Any) -> object:
    return asyncio.run(Runner.run(asked, question)).final_output


async def streamed(asked: Agent, question: str) -> object:
    running = Runner.run_streamed(asked, question)
    async for _ in running.stream_events():
        pass
    return running.final_output


async def pieces(asked: Agent, question: str) -> list[str]:
    events = Runner.run_streamed(asked, question).stream_events()
    raw = [event.data async for event in events if event.type == "raw_response_event"]
    return [event.delta for event in raw if event.type == "response.output_text.delta"]


def chat() -> None:
    features.check(ask(agent(), features.QUESTION), features.ANSWER)


def stream() -> None:
    features.check_pieces(asyncio.run(pieces(agent(), features.QUESTION)))


def tools() -> None:
    features.check(ask(agent(tools=[weather]), features.TOOL_QUESTION), features.TOOL_ANSWER)


def streamed_tools() -> None:
    answer = asyncio.run(streamed(agent(tools=[weather]), features.TOOL_QUESTION))
    features.check(answer, features.TOOL_ANSWER)


def structured() -> None:
    found = ask(agent(output_type=Place), features.JSON_QUESTION)
    features.check(found, Place(**features.PLACE))


def images() -> None:
    parts = [
        {"type": "input_text", "text": features.IMAGE_QUESTION},
        {"type": "input_image", "image_url": features.PICTURE, "detail": "auto"},
    ]
    features.check(ask(agent(), [{"role": "user", "content": parts}]), features.IMAGE_ANSWER)


async def left(running: Coroutine[Any, Any, object]) -> None:
    with features.gives_up(TimeoutError):
        await asyncio.wait_for(running, features.IMPATIENCE_S)


def cancel() -> None:
    for run in (Runner.run, streamed):
        question = features.slow_question()
        asyncio.run(left(run(agent(), question)))
        features.ends(question, features.CANCELLED)


def errors() -> None:
    with features.gives_up(openai.AuthenticationError):
        ask(agent("pod_wrong_key"), features.QUESTION)


features.report(chat, stream, tools, streamed_tools, structured, images, errors, cancel)
features.report_direct(stream, tools)
