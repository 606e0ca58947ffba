"""Spans say that something failed and what it cost, never what the user wrote."""

import json
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from podium_kit import telemetry
from podium_kit.telemetry.content import record_content


@pytest.fixture
def content_recorded() -> Iterator[None]:
    record_content(True)
    yield
    record_content(False)


def test_a_failed_span_carries_the_errors_class_but_not_its_words(
    spans: InMemorySpanExporter,
) -> None:
    with pytest.raises(ValueError, match="my secret plan"), telemetry.span("turn"):
        raise ValueError("my secret plan")
    (ended,) = spans.get_finished_spans()
    assert ended.status.status_code is StatusCode.ERROR
    assert dict(ended.attributes or {}) == {"error.type": "ValueError"}
    assert "my secret plan" not in str(ended.to_json())


def make_model_call() -> None:
    with telemetry.model_call("openai", "small-model") as call:
        call.content(prompt="what is love", answer="a verb")
        call.answered("small-model-2", input_tokens=3, output_tokens=2, finish_reason="stop")


def test_a_model_call_reports_model_tokens_and_finish_reason(spans: InMemorySpanExporter) -> None:
    make_model_call()
    (ended,) = spans.get_finished_spans()
    assert dict(ended.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "small-model",
        "gen_ai.response.model": "small-model-2",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 2,
    }


@pytest.mark.usefixtures("content_recorded")
def test_prompts_are_recorded_only_when_switched_on(spans: InMemorySpanExporter) -> None:
    make_model_call()
    (ended,) = spans.get_finished_spans()
    asked = json.loads(str((ended.attributes or {})["gen_ai.input.messages"]))
    assert asked == [{"role": "user", "parts": [{"type": "text", "content": "what is love"}]}]


def make_tool_call(failure: str = "") -> None:
    with telemetry.tool_call("calculator") as call:
        call.returned("e/1/tool/0", '{"expression": "6*7"}', "42", failure)


def test_a_tool_call_is_named_after_its_tool_and_holds_no_arguments(
    spans: InMemorySpanExporter,
) -> None:
    make_tool_call(failure="timeout")
    (ended,) = spans.get_finished_spans()
    assert ended.name == "execute_tool calculator"
    assert ended.status.status_code is StatusCode.ERROR
    assert dict(ended.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "calculator",
        "gen_ai.tool.call.id": "e/1/tool/0",
        "error.type": "timeout",
    }


@pytest.mark.usefixtures("content_recorded")
def test_arguments_and_results_are_recorded_only_when_switched_on(
    spans: InMemorySpanExporter,
) -> None:
    make_tool_call()
    found = spans.get_finished_spans()[0].attributes or {}
    assert found["gen_ai.tool.call.arguments"] == '{"expression": "6*7"}'
    assert found["gen_ai.tool.call.result"] == "42"
