"""Parameters of a chat completion that a model takes, learnt from what its server rejects.

Models of one API differ: newer ones of OpenAI want `max_completion_tokens` and no temperature,
Mistral knows `max_tokens` alone, others no `stream_options`, older ones of Anthropic no `strict` in
a tool. A rejection names the parameter and costs nothing, so a model is asked once more without it,
or with its other name.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from podium_kit.models.provider_errors import named_parameters, texts_of

CAP, OTHER_CAP = "max_tokens", "max_completion_tokens"
OTHER = {CAP: OTHER_CAP, OTHER_CAP: CAP}
# Of a tool in the request.
STRICT = "strict"
# An answer without them is the same kind of answer.
OPTIONAL = frozenset(
    {"temperature", "top_p", "seed", "stream_options", "stream", STRICT}
    | {"frequency_penalty", "presence_penalty", "parallel_tool_calls"}
)
REJECTED_STATUSES = frozenset({400, 422})
# Rejections of a value that is merely too large say none of these.
_UNKNOWN = re.compile(
    r"unsupported|not supported|n[o']t support|unrecogni[sz]ed|unknown|unexpected|extra_forbidden"
    r"|extra (inputs|fields)|not permitted|not allowed|deprecated|cannot (both|be)"
    r"|cannot find field|must be verified|only the default|invalid (parameter|field|argument) name",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ChatParameters:
    """`cap` limits the output; `without` are left out."""

    cap: str = CAP
    without: frozenset[str] = frozenset()
    # A server that rejects both names rejects something else.
    caps_tried: frozenset[str] = frozenset({CAP})

    def fitted(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A request with the usual name of the output's limit, as the model takes it."""
        names = {CAP: self.cap}
        left_out = self.without | ({"stream_options"} if "stream" in self.without else set())
        kept = {names.get(name, name): part for name, part in body.items() if name not in left_out}
        # The body that a tool's owner adds may have anything there.
        if STRICT in left_out and isinstance(kept.get("tools"), list):
            kept["tools"] = [_without_strict(tool) for tool in kept["tools"]]
        return kept

    def learnt(self, status: int, fault: object) -> "ChatParameters":
        """The parameters after a rejection with such a body; the same when it teaches nothing."""
        if status not in REJECTED_STATUSES:
            return self
        words, named = " ".join(texts_of(fault)), {_last(name) for name in named_parameters(fault)}
        other = OTHER[self.cap]
        unknown = bool(_UNKNOWN.search(words))
        about_cap = unknown and (self.cap in named or (not named and _mentions(words, self.cap)))
        if other not in self.caps_tried and (about_cap or _mentions(words, other)):
            return replace(self, cap=other, caps_tried=self.caps_tried | {other})
        if not unknown:
            return self
        rejected = (named or {each for each in OPTIONAL if _mentions(words, each)}) & OPTIONAL
        # Of two that exclude each other one may stay.
        if {"temperature", "top_p"} <= rejected:
            rejected -= {"temperature"}
        return replace(self, without=self.without | rejected)


USUAL = ChatParameters()


def _without_strict(tool: Any) -> Any:
    """Completions have the field in the function, Responses and Messages beside its name."""
    if not isinstance(tool, Mapping):
        return tool
    return {
        name: _without_strict(part) if name == "function" else part
        for name, part in tool.items()
        if name != STRICT
    }


def _last(name: str) -> str:
    """Returns the field of a path, for example `strict` of `tools[0].function.strict`."""
    return name.rpartition(".")[2]


def _mentions(words: str, name: str) -> bool:
    if name == STRICT:
        # Elsewhere it is a word like any other.
        return re.search(r"""[.'"`]strict['"`:]""", words) is not None
    return re.search(rf"(?<![a-z_]){name}(?![a-z_])", words) is not None
