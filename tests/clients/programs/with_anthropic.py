import anthropic
import features

client = anthropic.Anthropic(base_url=features.URL.removesuffix("/v1"), api_key=features.KEY)
WEATHER = {
    "name": "get_weather",
    "description": "weather now at our own stations",
    "input_schema": features.CITY,
}


def said(text: str) -> list[dict]:
    return [{"role": "user", "content": text}]


def ask(messages: list[dict], **parameters: object) -> anthropic.types.Message:
    return client.messages.create(
        model=features.MODEL, max_tokens=200, messages=messages, **parameters
    )


def chat() -> None:
    features.check(ask(said(features.QUESTION)).content[0].text, features.ANSWER)


def stream() -> None:
    with client.messages.stream(
        model=features.MODEL, max_tokens=200, messages=said(features.QUESTION)
    ) as events:
        features.check_pieces(events.text_stream)


def answered(asked: anthropic.types.Message) -> str:
    results = [
        {
            "type": "tool_result",
            "tool_use_id": call.id,
            "content": features.get_weather(**call.input),
        }
        for call in asked.content
        if call.type == "tool_use"
    ]
    messages = [
        *said(features.TOOL_QUESTION),
        {"role": "assistant", "content": asked.content},
        {"role": "user", "content": results},
    ]
    return ask(messages, tools=[WEATHER]).content[0].text


def tools() -> None:
    asked = ask(said(features.TOOL_QUESTION), tools=[WEATHER])
    features.check(answered(asked), features.TOOL_ANSWER)


def streamed_tools() -> None:
    with client.messages.stream(
        model=features.MODEL, max_tokens=200, messages=said(features.TOOL_QUESTION), tools=[WEATHER]
    ) as events:
        asked = events.get_final_message()
    features.check(answered(asked), features.TOOL_ANSWER)


def structured() -> None:
    place = {
        "name": "place",
        "input_schema": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "country": {"type": "string"}},
            "required": ["city", "country"],
        },
    }
    choice = {"type": "tool", "name": "place"}
    reply = ask(said(features.JSON_QUESTION), tools=[place], tool_choice=choice)
    features.check(reply.content[0].input, features.PLACE)


def images() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": features.PIXEL}
    parts = [
        {"type": "image", "source": source},
        {"type": "text", "text": features.IMAGE_QUESTION},
    ]
    reply = ask([{"role": "user", "content": parts}])
    features.check(reply.content[0].text, features.IMAGE_ANSWER)


def cancel() -> None:
    question = features.slow_question()
    hasty = client.with_options(timeout=features.IMPATIENCE_S, max_retries=0)
    with features.gives_up(anthropic.APITimeoutError):
        hasty.messages.create(model=features.MODEL, max_tokens=200, messages=said(question))
    features.ends(question, features.CANCELLED)
    question = features.slow_question()
    with client.messages.create(
        model=features.MODEL, max_tokens=200, messages=said(question), stream=True
    ) as events:
        next(iter(events))
    features.ends(question, features.CANCELLED)


def errors() -> None:
    stranger = client.with_options(api_key="pod_wrong_key")
    with features.gives_up(anthropic.AuthenticationError):
        stranger.messages.create(
            model=features.MODEL, max_tokens=200, messages=said(features.QUESTION)
        )


features.report(chat, stream, tools, streamed_tools, structured, images, errors, cancel)
features.report_direct(stream, tools)
