import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from gateway.chat.response import CHUNK_CHARACTERS
from gateway.chat.runs import Run
from gateway.http.error_responses import error_body
from gateway.models import Outcome
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
        outcome = await run.outcome(with_calls=bool(shape.servers))
        whole = shape.ended(outcome)
    except DomainError as error:
        said = error_body(error)["error"]
        failed = shape.failed(str(said["code"]), str(said["message"]))
        yield events.event("response.failed", response=failed)
        return
    for index, item in enumerate(whole["output"]):
        for event in events.item(index, item, outcome):
            yield event
    kind = "response.incomplete" if whole["incomplete_details"] else "response.completed"
    yield events.event(kind, response=whole)


class _Events:
    def __init__(self) -> None:
        self._sequence = -1

    def event(self, kind: str, **fields: Any) -> bytes:
        self._sequence += 1
        body = {"type": kind, "sequence_number": self._sequence, **fields}
        text = json.dumps(body, ensure_ascii=False)
        return f"event: {kind}\ndata: {text}\n\n".encode()

    def item(self, index: int, item: Json, outcome: Outcome) -> Iterator[bytes]:
        place = {"output_index": index, "item_id": item["id"]}
        opened = {**item, **EMPTY[item["type"]]}
        yield self.event("response.output_item.added", output_index=index, item=opened)
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
                yield from self._text(place, item, outcome.answer)
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

    def _text(self, place: Json, item: Json, text: str) -> Iterator[bytes]:
        at, [part] = {**place, "content_index": 0}, item["content"]
        yield self.event("response.content_part.added", **at, part={**part, "text": ""})
        for start in range(0, len(text), CHUNK_CHARACTERS):
            delta = text[start : start + CHUNK_CHARACTERS]
            yield self.event("response.output_text.delta", **at, delta=delta, logprobs=[])
        yield self.event("response.output_text.done", **at, text=text, logprobs=[])
        yield self.event("response.content_part.done", **at, part=part)
