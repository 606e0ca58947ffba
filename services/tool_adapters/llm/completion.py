import json
from dataclasses import dataclass, field, replace

from podium_kit.metering import Dimension, Quantity, Usage, UsageSource
from podium_kit.text import whole_characters
from tool_adapters.adapter import ModelFunctionCall
from tool_adapters.llm.parts import AnswerParts
from tool_adapters.models import JsonObject

LENGTH, FILTER, REFUSAL, TOOL_CALLS = "length", "content_filter", "refusal", "tool_calls"
# Reasons for which providers end an answer before it is whole, as one of three.
FINISHED = {
    **dict.fromkeys(("length", "max_tokens", "model_length", "max_output_tokens"), LENGTH),
    **dict.fromkeys(("MAX_TOKENS", "model_context_window_exceeded", "pause_turn"), LENGTH),
    **dict.fromkeys(("error", "insufficient_system_resource", "malformed_model_output"), LENGTH),
    **dict.fromkeys(("content_filter", "content_filtered", "guardrail_intervened"), FILTER),
    **dict.fromkeys(("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"), FILTER),
    **dict.fromkeys(("sensitive", "safety", "MODEL_ARMOR", "LANGUAGE"), FILTER),
    "refusal": REFUSAL,
}
STANDARD_TIERS = frozenset({"", "auto", "default", "standard", "on_demand", "standard_only"})
TIER_CHARACTERS_MAX = 50
# Positions of calls in one answer.
CALLS_MAX = 1_000


@dataclass
class StreamedCompletion:
    """Filled while a reply streams; `reason` is "" until the model says why it stopped.

    Calls of functions are taken where some were offered: others are no answer.
    """

    texts: list[str] = field(default_factory=list)
    reason: str = ""
    request_id: str = ""
    report: JsonObject = field(default_factory=dict)
    error: str = ""
    size_bytes: int = 0
    service_class: str = ""
    calls: dict[int, ModelFunctionCall] = field(default_factory=dict)
    logprobs: list[JsonObject] = field(default_factory=list)
    logprobs_bytes: int = 0
    parts: AnswerParts | None = None
    takes_calls: bool = False

    @property
    def finish_reason(self) -> str:
        """ "stop", "tool_calls", or why the text is no whole answer; "" while it is written."""
        whole = TOOL_CALLS if self.calls else "stop"
        return FINISHED.get(self.reason, whole if self.reason else "")

    @property
    def is_cut(self) -> bool:
        return self.finish_reason not in ("", "stop", TOOL_CALLS)

    @property
    def has_begun(self) -> bool:
        return bool(self.texts or self.calls)

    @property
    def written(self) -> str:
        """Everything that the model wrote, for an estimate of its size."""
        calls = (f"{call.name}{call.arguments}" for call in self.calls.values())
        return "".join([*self.texts, *calls])

    @property
    def text(self) -> str:
        """Everything written, characters that were cut in two put together."""
        return whole_characters("".join(self.texts))

    def write(self, text: object) -> None:
        written = _string(text)
        self.size_bytes += len(written.encode(errors="surrogatepass"))
        # The first event of many providers has an empty text: nothing is bought yet.
        if written:
            self.texts.append(written)
            if self.parts is not None:
                self.parts.write(written)

    def call(self, index: object, id: object, name: object, arguments: object) -> None:
        """Adds a piece of a call of a function: the id and the name come with the first one.

        Raises TypeError for a position that no API gives.
        """
        if not self.takes_calls:
            return
        if not isinstance(index, int) or not 0 <= index < CALLS_MAX:
            raise TypeError(f"{index!r:.20} instead of a call's position")
        piece = ModelFunctionCall(*(_string(given or "") for given in (id, name, arguments)))
        before = self.calls.get(index, ModelFunctionCall("", "", ""))
        # Some providers repeat them with every piece.
        head = ModelFunctionCall(before.id or piece.id, before.name or piece.name, "")
        self.calls[index] = replace(head, arguments=before.arguments + piece.arguments)
        text = f"{piece.id}{piece.name}{piece.arguments}"
        self.size_bytes += len(text.encode(errors="surrogatepass"))
        if self.parts is not None:
            self.parts.call(index, head, piece.arguments)

    def note_logprobs(self, given: object) -> None:
        """Adds the log-probabilities of tokens, in the form of OpenAI's chat completions."""
        content = given.get("content") if isinstance(given, dict) else None
        if isinstance(content, list):
            self.logprobs += content
            self.logprobs_bytes += len(json.dumps(content))

    def refuse(self, text: object) -> None:
        """Adds words with which the model declines. Raises TypeError likewise."""
        if text:
            self.write(text)
            self.reason = REFUSAL

    def end(self, reason: object) -> None:
        given = _string(reason or "")
        # A model that declines stops as it always does.
        if given and (self.reason != REFUSAL or given in FINISHED):
            self.reason = given

    def serve(self, tier: object) -> None:
        """The class of service that the provider names, if it is not the standard one."""
        # Other characters would fail the report of what was used, which is then never charged.
        if isinstance(tier, str) and tier.isprintable() and tier not in STANDARD_TIERS:
            self.service_class = tier[:TIER_CHARACTERS_MAX]


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} instead of a string")
    return value


def usage_of_cut(reported: Usage | None, estimate: Usage) -> Usage:
    """Usage of a completion that broke off: the report as far as it goes, else an estimate.

    Reports made at the start of a stream count the prompt, but not what follows.
    """
    if reported is None:
        return estimate
    output = Dimension.OUTPUT_TEXT
    written = max(reported.get(output), estimate.get(output))
    others = tuple(one for one in reported.quantities if one.dimension != output)
    quantities = (*others, Quantity(output, written)) if written else others
    return replace(reported, quantities=quantities, source=UsageSource.ESTIMATED)
