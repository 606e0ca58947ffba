import asyncio
import base64
from collections.abc import Coroutine
from typing import Any

import features
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, NativeOutput
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


class Place(BaseModel):
    """A place."""

    city: str
    country: str


def agent(key: str = features.KEY, **parts: Any) -> Agent:
    provider = OpenAIProvider(base_url=features.URL, api_key=key)
    return Agent(OpenAIChatModel(features.MODEL, provider=provider), **parts)


async def pieces(asked: Agent, question: str) -> list[str]:
    async with asked.run_stream(question) as running:
        return [piece async for piece in running.stream_text(delta=True, debounce_by=None)]


async def streamed(asked: Agent, question: str) -> str:
    async with asked.run_stream(question) as running:
        return await running.get_output()


def chat() -> None:
    features.check(agent().run_sync(features.QUESTION).output, features.ANSWER)


def stream() -> None:
    features.check_pieces(asyncio.run(pieces(agent(), features.QUESTION)))


def tools() -> None:
    asked = agent(tools=[features.get_weather])
    features.check(asked.run_sync(features.TOOL_QUESTION).output, features.TOOL_ANSWER)


def streamed_tools() -> None:
    asked = agent(tools=[features.get_weather])
    features.check(asyncio.run(streamed(asked, features.TOOL_QUESTION)), features.TOOL_ANSWER)


def structured() -> None:
    for output_type in (Place, NativeOutput(Place)):
        found = agent(output_type=output_type).run_sync(features.JSON_QUESTION).output
        features.check(found, Place(**features.PLACE))


def images() -> None:
    picture = BinaryContent(base64.b64decode(features.PIXEL), media_type="image/png")
    found = agent().run_sync([features.IMAGE_QUESTION, picture]).output
    features.check(found, features.IMAGE_ANSWER)


async def left(running: Coroutine[Any, Any, object]) -> None:
    with features.gives_up(TimeoutError):
        await asyncio.wait_for(running, features.IMPATIENCE_S)


def cancel() -> None:
    question = features.slow_question()
    asyncio.run(left(agent().run(question)))
    features.ends(question, features.CANCELLED)
    question = features.slow_question()
    asyncio.run(left(streamed(agent(), question)))
    features.ends(question, features.CANCELLED)


def errors() -> None:
    with features.gives_up(ModelHTTPError) as found:
        agent("pod_wrong_key").run_sync(features.QUESTION)
    features.check(found[0].status_code, 401)


features.report(chat, stream, tools, streamed_tools, structured, images, errors, cancel)
features.report_direct(stream, tools)
