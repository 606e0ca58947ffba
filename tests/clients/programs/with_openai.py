import json

import features
import openai
from pydantic import BaseModel

client = openai.OpenAI(base_url=features.URL, api_key=features.KEY)
WEATHER = {"type": "function", "function": features.WEATHER}


class Place(BaseModel):
    city: str
    country: str


def said(text: str) -> list[dict]:
    return [{"role": "user", "content": text}]


def chat() -> None:
    reply = client.chat.completions.create(model=features.MODEL, messages=said(features.QUESTION))
    features.check(reply.choices[0].message.content, features.ANSWER)


def stream() -> None:
    chunks = client.chat.completions.create(
        model=features.MODEL, messages=said(features.QUESTION), stream=True
    )
    features.check_pieces(chunk.choices[0].delta.content for chunk in chunks if chunk.choices)


def tools() -> None:
    messages = said(features.TOOL_QUESTION)
    asked = client.chat.completions.create(model=features.MODEL, messages=messages, tools=[WEATHER])
    message = asked.choices[0].message
    messages.append(message)
    for call in message.tool_calls:
        content = features.get_weather(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    reply = client.chat.completions.create(model=features.MODEL, messages=messages, tools=[WEATHER])
    features.check(reply.choices[0].message.content, features.TOOL_ANSWER)


def streamed_tools() -> None:
    with client.chat.completions.stream(
        model=features.MODEL, messages=said(features.TOOL_QUESTION), tools=[WEATHER]
    ) as events:
        whole = events.get_final_completion()
    [call] = whole.choices[0].message.tool_calls
    features.check(json.loads(call.function.arguments), {"city": "Oslo"})


def structured() -> None:
    reply = client.chat.completions.parse(
        model=features.MODEL, messages=said(features.JSON_QUESTION), response_format=Place
    )
    features.check(reply.choices[0].message.parsed, Place(**features.PLACE))


def images() -> None:
    parts = [
        {"type": "text", "text": features.IMAGE_QUESTION},
        {"type": "image_url", "image_url": {"url": features.PICTURE}},
    ]
    reply = client.chat.completions.create(
        model=features.MODEL, messages=[{"role": "user", "content": parts}]
    )
    features.check(reply.choices[0].message.content, features.IMAGE_ANSWER)


def cancel() -> None:
    question = features.slow_question()
    hasty = client.with_options(timeout=features.IMPATIENCE_S, max_retries=0)
    with features.gives_up(openai.APITimeoutError):
        hasty.chat.completions.create(model=features.MODEL, messages=said(question))
    features.ends(question, features.CANCELLED)
    question = features.slow_question()
    with client.chat.completions.create(
        model=features.MODEL, messages=said(question), stream=True
    ) as chunks:
        next(iter(chunks))
    features.ends(question, features.CANCELLED)


def errors() -> None:
    stranger = client.with_options(api_key="pod_wrong_key")
    with features.gives_up(openai.AuthenticationError):
        stranger.chat.completions.create(model=features.MODEL, messages=said(features.QUESTION))


def embeddings() -> None:
    found = client.embeddings.create(model=features.EMBEDDER, input=features.EMBEDDED)
    features.check_vectors([each.embedding for each in found.data])


features.report(chat, stream, tools, streamed_tools, structured, images, embeddings, errors, cancel)
features.report_direct(stream, tools)
