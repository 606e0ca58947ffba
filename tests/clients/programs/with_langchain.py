from typing import Any

import features
import openai
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel, SecretStr

weather = tool(features.get_weather)


class Place(BaseModel):
    """A place."""

    city: str
    country: str


def model(key: str = features.KEY, **parts: Any) -> ChatOpenAI:
    return ChatOpenAI(
        model=features.MODEL, base_url=features.URL, api_key=SecretStr(key), max_retries=0, **parts
    )


def chat() -> None:
    features.check(model().invoke(features.QUESTION).content, features.ANSWER)


def stream() -> None:
    features.check_pieces(chunk.content for chunk in model().stream(features.QUESTION))


def tools() -> None:
    bound, messages = model().bind_tools([weather]), [HumanMessage(features.TOOL_QUESTION)]
    asked = bound.invoke(messages)
    messages.append(asked)
    for call in asked.tool_calls:
        content = weather.invoke(call["args"])
        messages.append(ToolMessage(content=content, tool_call_id=call["id"]))
    features.check(bound.invoke(messages).content, features.TOOL_ANSWER)


def streamed_tools() -> None:
    whole = None
    for chunk in model().bind_tools([weather]).stream(features.TOOL_QUESTION):
        whole = chunk if whole is None else whole + chunk
    features.check([call["args"] for call in whole.tool_calls], [{"city": "Oslo"}])


def structured() -> None:
    for method in ("json_schema", "function_calling"):
        asking = model().with_structured_output(Place, method=method)
        features.check(asking.invoke(features.JSON_QUESTION), Place(**features.PLACE))


def images() -> None:
    parts = [
        {"type": "text", "text": features.IMAGE_QUESTION},
        {"type": "image", "base64": features.PIXEL, "mime_type": "image/png"},
    ]
    features.check(model().invoke([HumanMessage(parts)]).content, features.IMAGE_ANSWER)


def cancel() -> None:
    question = features.slow_question()
    with features.gives_up(openai.APITimeoutError):
        model(timeout=features.IMPATIENCE_S).invoke(question)
    features.ends(question, features.CANCELLED)
    question = features.slow_question()
    chunks = model().stream(question)
    next(chunks)
    chunks.close()
    features.ends(question, features.CANCELLED)


def errors() -> None:
    with features.gives_up(openai.AuthenticationError):
        model("pod_wrong_key").invoke(features.QUESTION)


def embeddings() -> None:
    # Its default sends the tokens of OpenAI's own models.
    found = OpenAIEmbeddings(
        model=features.EMBEDDER,
        base_url=features.URL,
        api_key=SecretStr(features.KEY),
        check_embedding_ctx_length=False,
    ).embed_documents(features.EMBEDDED)
    features.check_vectors(found)


features.report(chat, stream, tools, streamed_tools, structured, images, embeddings, errors, cancel)
features.report_direct(stream, tools)
