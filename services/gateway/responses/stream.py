import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from gateway.chat.runs import Run
from gateway.chat.streaming import StreamedText
from gateway.http.error_responses import error_body
from gateway.models import AnswerPart, Outcome
from gateway.responses.response import Json, Shape
from podium_kit.rpc.errors import DomainError

# What of an item is not there yet when it is first named.
EMPTY: dict[str, Json] = {
    "function_call": {"arguments": "", "status": "in_progress"},
    "custom_tool_call": {"input": "", "status": "in_progress"},
    "message": {"content": [], "status": "in_progress"},
    "mcp_list_tools": {"tools": []},
    "mcp_call": {"arguments": "", "output": None, "error": None, "status": "in_progress"},
}


async def streamed(run: Run, shape: Shape) -> AsyncIterator[bytes]:
    events = _Events()
    yield events.event("response.created", response=shape.running())
    yield events.event("response.in_progress", response=shape.running())
    try:
        # The text is the first item, but for calls of MCP servers, which are known at the end.
        with_calls = bool(shape.servers)
        async for news in run.events(with_calls=with_calls, with_parts=not with_calls):
            if isinstance(news, AnswerPart):
                for event in events.written(shape.message(""), news.text):
                    yield event
            elif isinstance(news, Outcome):
                whole = shape.ended(news)
    except DomainError as error:
        problem = error_body(error)["error"]
        failed = shape.failed(str(problem["code"]), str(problem["message"]))
        yield events.event("response.failed", response=failed)
        return
    for index, item in enumerate(whole["output"]):
        for event in events.item(index, item):
            yield event
    kind = "response.incomplete" if whole["incomplete_details"] else "response.completed"
    yield events.event(kind, response=whole)


class _Events:
    def __init__(self) -> None:
        self._sequence = -1
        self._text = StreamedText()

    def event(self, kind: str, **fields: Any) -> bytes:
        self._sequence += 1
        body = {"type": kind, "sequence_number": self._sequence, **fields}
        text = json.dumps(body, ensure_ascii=False)
        return f"event: {kind}\ndata: {text}\n\n".encode()

    def written(self, item: Json, text: str) -> Iterator[bytes]:
        """Text of a message that is being written."""
        opens = not self._text.has_begun
        if ready := self._text.add(text):
            if opens:
                yield self._opened(0, item)
                yield self._opened_text(0, item)
            yield self._text_delta(0, item, ready)

    def item(self, index: int, item: Json) -> Iterator[bytes]:
        place = {"output_index": index, "item_id": item["id"]}
        is_open = item["type"] == "message" and self._text.has_begun
        if not is_open:
            yield self._opened(index, item)
        match item["type"]:
            case "function_call":
                yield from self._call(place, item)
            case "custom_tool_call":
                yield from self._custom_call(place, item["input"])
            case "mcp_list_tools":
                yield self.event("response.mcp_list_tools.in_progress", **place)
                yield self.event("response.mcp_list_tools.completed", **place)
            case "mcp_call":
                yield from self._mcp_call(place, item)
            case _:
                if not is_open:
                    yield self._opened_text(index, item)
                yield from self._rest(index, item)
        yield self.event("response.output_item.done", output_index=index, item=item)

    def _call(self, place: Json, item: Json) -> Iterator[bytes]:
        kind, arguments = "response.function_call_arguments", item["arguments"]
        yield self.event(f"{kind}.delta", **place, delta=arguments)
        yield self.event(f"{kind}.done", **place, name=item["name"], arguments=arguments)

    def _custom_call(self, place: Json, text: str) -> Iterator[bytes]:
        kind = "response.custom_tool_call_input"
        yield self.event(f"{kind}.delta", **place, delta=text)
        yield self.event(f"{kind}.done", **place, input=text)

    def _mcp_call(self, place: Json, item: Json) -> Iterator[bytes]:
        kind, arguments = "response.mcp_call_arguments", item["arguments"]
        yield self.event("response.mcp_call.in_progress", **place)
        yield self.event(f"{kind}.delta", **place, delta=arguments)
        yield self.event(f"{kind}.done", **place, arguments=arguments)
        yield self.event(f"response.mcp_call.{item['status']}", **place)

    def _opened(self, index: int, item: Json) -> bytes:
        opened = {**item, **EMPTY[item["type"]]}
        return self.event("response.output_item.added", output_index=index, item=opened)

    def _opened_text(self, index: int, item: Json) -> bytes:
        part = {**item["content"][0], "text": ""}
        return self.event("response.content_part.added", **_at(index, item), part=part)

    def _text_delta(self, index: int, item: Json, text: str) -> bytes:
        at = _at(index, item)
        return self.event("response.output_text.delta", **at, delta=text, logprobs=[])

    def _rest(self, index: int, item: Json) -> Iterator[bytes]:
        at, [part] = _at(index, item), item["content"]
        for chunk in self._text.rest(part["text"]):
            yield self._text_delta(index, item, chunk)
        yield self.event("response.output_text.done", **at, text=part["text"], logprobs=[])
        yield self.event("response.content_part.done", **at, part=part)


def _at(index: int, item: Json) -> Json:
    return {"output_index": index, "item_id": item["id"], "content_index": 0}
