import time
from dataclasses import dataclass, field
from typing import Any

from gateway.chat.client_tools import input_of
from gateway.chat.outcomes import finish_reason
from gateway.chat.response import call_id, podium, usage
from gateway.models import ClientCall, Outcome
from gateway.responses.ids import ResponseId
from gateway.responses.items import CustomTool
from gateway.responses.mcp_items import mcp_calls, mcp_lists
from gateway.responses.mcp_tools import NamedServer
from gateway.responses.request import ResponseRequest

Json = dict[str, Any]
CUT_SHORT = {
    "length": {"reason": "max_output_tokens"},
    "content_filter": {"reason": "content_filter"},
}


@dataclass(frozen=True)
class Shape:
    id: ResponseId
    model: str
    servers: tuple[NamedServer, ...] = ()
    custom_tools: frozenset[str] = frozenset()
    asked: Json = field(default_factory=dict)
    created: int = field(default_factory=lambda: int(time.time()))

    @classmethod
    def of(
        cls, id: ResponseId, request: ResponseRequest, servers: tuple[NamedServer, ...]
    ) -> "Shape":
        given = request.model_dump(mode="json", by_alias=True, exclude_unset=True)
        repeated = {key: given[key] for key in REPEATED & given.keys()}
        custom = frozenset(
            tool.name for tool in request.tools or () if isinstance(tool, CustomTool)
        )
        return cls(id, request.model, servers, custom, repeated)

    def running(self) -> Json:
        return self._response("in_progress", [])

    def ended(self, outcome: Outcome) -> Json:
        short = CUT_SHORT.get(finish_reason(outcome))
        return {
            **self._response("incomplete" if short else "completed", self.output(outcome)),
            "incomplete_details": short,
            "usage": usage_of(outcome),
            "podium": podium(outcome),
        }

    def failed(self, code: str, message: str) -> Json:
        error = {"code": code, "message": message}
        return {**self._response("failed", []), "error": error}

    def output(self, outcome: Outcome) -> list[Json]:
        # From a client's results on, the servers are known.
        listed = [] if self.id.answered_turn else mcp_lists(self.id, self.servers)
        made = mcp_calls(self.id, self.servers, outcome.made_calls)
        calls = [self._call(outcome.episode_id, call) for call in outcome.client_calls]
        messages = [self.message(outcome.answer)] if outcome.answer or not calls else []
        return [*listed, *made, *messages, *calls]

    def _call(self, episode_id: str, call: ClientCall) -> Json:
        named = {
            "call_id": call_id(episode_id, call),
            "name": call.name,
            "status": "completed",
        }
        if call.name in self.custom_tools:
            id, text = f"ctc_{self.id}_{call.index}", input_of(call.arguments)
            return {"type": "custom_tool_call", "id": id, **named, "input": text}
        id = f"fc_{self.id}_{call.index}"
        return {"type": "function_call", "id": id, **named, "arguments": call.arguments}

    def message(self, text: str) -> Json:
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        return {
            "type": "message",
            "id": f"msg_{self.id}",
            "role": "assistant",
            "content": [part],
            "status": "completed",
        }

    def _response(self, status: str, output: list[Json]) -> Json:
        return {
            "id": str(self.id),
            "object": "response",
            "created_at": self.created,
            "status": status,
            "model": self.model,
            "output": output,
            "error": None,
            "incomplete_details": None,
            "usage": None,
            **DEFAULTS,
            **self.asked,
        }


DEFAULTS: Json = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "truncation": "disabled",
}
REPEATED = DEFAULTS.keys()


def usage_of(outcome: Outcome) -> Json:
    found = usage(outcome)
    return {
        "input_tokens": found["prompt_tokens"],
        "input_tokens_details": found["prompt_tokens_details"],
        "output_tokens": found["completion_tokens"],
        "output_tokens_details": found["completion_tokens_details"],
        "total_tokens": found["total_tokens"],
    }
