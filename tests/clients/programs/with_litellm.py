import json
import os

# Else it asks the network for prices when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

from typing import Any

import features
import litellm
from pydantic import BaseModel

WEATHER = {"type": "function", "function": features.WEATHER}


class Place(BaseModel):
    city: str
    country: str


def ask(messages: object, key: str = features.KEY, **parameters: Any) -> Any:
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return litellm.completion(
        model=f"openai/{features.MODEL}",
        api_base=features.URL,
        api_key=key,
        messages=messages,
        num_retries=0,
        max_retries=0,
        **parameters,
    )


def chat() -> None:
    features.check(ask(features.QUESTION).choices[0].message.content, features.ANSWER)


def stream() -> None:
    chunks = ask(features.QUESTION, stream=True)
    features.check_pieces(chunk.choices[0].delta.content for chunk in chunks)


def tools() -> None:
    messages = [{"role": "user", "content": features.TOOL_QUESTION}]
    message = ask(messages, tools=[WEATHER]).choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    for call in message.tool_calls:
        content = features.get_weather(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    reply = ask(messages, tools=[WEATHER])
    features.check(reply.choices[0].message.content, features.TOOL_ANSWER)


def streamed_tools() -> None:
    chunks = list(ask(features.TOOL_QUESTION, tools=[WEATHER], stream=True))
    [call] = litellm.stream_chunk_builder(chunks).choices[0].message.tool_calls
    features.check(json.loads(call.function.arguments), {"city": "Oslo"})


def structured() -> None:
    reply = ask(features.JSON_QUESTION, response_format=Place)
    features.check(json.loads(reply.choices[0].message.content), features.PLACE)


def images() -> None:
    parts = [
        {"type": "text", "text": features.IMAGE_QUESTION},
        {"type": "image_url", "image_url": {"url": features.PICTURE}},
    ]
    reply = ask([{"role": "user", "content": parts}])
    features.check(reply.choices[0].message.content, features.IMAGE_ANSWER)


def cancel() -> None:
    question = features.slow_question()
    with features.gives_up(litellm.Timeout):
        ask(question, timeout=features.IMPATIENCE_S)
    features.ends(question, features.CANCELLED)


def errors() -> None:
    with features.gives_up(litellm.AuthenticationError):
        ask(features.QUESTION, "pod_wrong_key")


def embeddings() -> None:
    found = litellm.embedding(
        model=f"openai/{features.EMBEDDER}",
        input=features.EMBEDDED,
        api_base=features.URL,
        api_key=features.KEY,
    )
    features.check_vectors([each["embedding"] for each in found.data])


features.report(chat, stream, tools, streamed_tools, structured, images, embeddings, errors, cancel)
features.report_direct(stream, tools)
