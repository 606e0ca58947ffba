from dataclasses import dataclass, replace
from typing import Any

from orchestrator_inference.engine.engine import ModelCall
from orchestrator_inference.models import Constraint
from podium_kit.models.chat_parameters import CAP, REJECTED_STATUSES, USUAL, ChatParameters
from podium_kit.models.provider_errors import texts_of

# Words with which servers reject a response_format of type json_schema.
SCHEMA_WORDS = ("response_format", "json_schema", "json schema", "structured output", "grammar")


@dataclass(frozen=True)
class Dialect:
    """vLLM takes everything; others may know no json_schema or other parameters."""

    is_vllm: bool
    json_schema: bool = True
    parameters: ChatParameters = USUAL

    def prompt(self, call: ModelCall) -> dict[str, Any]:
        messages = [{"role": each.role, "content": each.content} for each in call.messages]
        body: dict[str, Any] = {"model": call.model.name, "messages": messages}
        if call.functions:
            body["tools"] = call.functions
        if self.is_vllm and call.template_arguments:
            body["chat_template_kwargs"] = dict(call.template_arguments)
        return body

    def constrains(self, call: ModelCall) -> bool:
        """Returns whether the reply is bound by the call's grammar."""
        return self.json_schema and call.constraint is not None

    def body(self, call: ModelCall, *, streams: bool = False) -> dict[str, Any]:
        sampling = call.sampling
        body: dict[str, Any] = {
            **self.prompt(call),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            CAP: sampling.max_tokens,
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        if self.json_schema and call.constraint is not None:
            body["response_format"] = _response_format(call.constraint)
        if call.functions:
            # vLLM shows them all the same, and leaves the reply as the model wrote it.
            body["tool_choice"] = "none" if self.is_vllm else "auto"
            if not (self.is_vllm or call.several_calls):
                body["parallel_tool_calls"] = False
        if self.is_vllm:
            # Log-probabilities of the sampled tokens alone, and ids as sampled: text
            # tokenised again gives other ids.
            body |= {"logprobs": True, "top_logprobs": 0, "return_token_ids": True}
        if streams:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return self.parameters.fitted(body)

    def learnt(self, status: int, fault: object) -> "Dialect":
        """The dialect after a rejection; itself when the rejection teaches nothing.

        A policy that is trained on vLLM is never sampled otherwise than it was asked to be, and a
        grammar that vLLM rejects is a fault to fix.
        """
        if self.is_vllm or status not in REJECTED_STATUSES:
            return self
        if (learnt := self.parameters.learnt(status, fault)) != self.parameters:
            return replace(self, parameters=learnt)
        words = " ".join(texts_of(fault)).lower()
        if any(word in words for word in SCHEMA_WORDS):
            return replace(self, json_schema=False)
        return self


def _response_format(constraint: Constraint) -> dict[str, Any]:
    schema = {"name": "action", "strict": True, "schema": constraint.schema}
    return {"type": "json_schema", "json_schema": schema}
