"""Model calls after OpenTelemetry's GenAI semantic conventions."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from opentelemetry import metrics
from opentelemetry.trace import Span, SpanKind

from podium_kit.telemetry.content import note_messages
from podium_kit.telemetry.spans import span

_meter = metrics.get_meter(__name__)
_tokens = _meter.create_histogram("gen_ai.client.token.usage", "{token}", "tokens per model call")
_duration_s = _meter.create_histogram(
    "gen_ai.client.operation.duration", "s", "time of one model call, to its last token"
)


class ModelCall:
    """The call in progress: say what came back before leaving the context."""

    def __init__(self, current: Span, provider: str, model: str) -> None:
        self._span = current
        self._finish_reason = "stop"
        self.labels = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
        }

    def answered(
        self, response_model: str, input_tokens: int, output_tokens: int, finish_reason: str
    ) -> None:
        self._finish_reason = finish_reason
        self._span.set_attribute("gen_ai.response.model", response_model)
        self._span.set_attribute("gen_ai.response.finish_reasons", [finish_reason])
        self._span.set_attribute("gen_ai.usage.input_tokens", input_tokens)
        self._span.set_attribute("gen_ai.usage.output_tokens", output_tokens)
        _tokens.record(input_tokens, {**self.labels, "gen_ai.token.type": "input"})
        _tokens.record(output_tokens, {**self.labels, "gen_ai.token.type": "output"})

    def content(self, prompt: str, answer: str) -> None:
        """Records the words themselves, only where the settings say `log_prompts`."""
        note_messages(self._span, prompt, answer, self._finish_reason)


@contextmanager
def model_call(provider: str, model: str) -> Iterator[ModelCall]:
    """A span and the duration of one call; `provider` as in the conventions ("openai", ...)."""
    started = perf_counter()
    with span("chat", kind=SpanKind.CLIENT) as current:
        call = ModelCall(current, provider, model)
        current.update_name(f"chat {model}")
        current.set_attributes(call.labels)
        try:
            yield call
        finally:
            _duration_s.record(perf_counter() - started, call.labels)
