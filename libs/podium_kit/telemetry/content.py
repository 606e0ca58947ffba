"""Permission to export content of users, models and tools, which settings have to grant."""

import json

from opentelemetry.trace import Span


class _Content:
    recorded = False


def record_content(enabled: bool) -> None:
    _Content.recorded = enabled


def note_messages(span: Span, asked: str, answered: str, finish_reason: str) -> None:
    if _Content.recorded:
        reason = {"finish_reason": finish_reason}
        span.set_attribute("gen_ai.input.messages", _messages("user", asked, {}))
        span.set_attribute("gen_ai.output.messages", _messages("assistant", answered, reason))


def note_call(span: Span, arguments: str, result: str) -> None:
    if _Content.recorded:
        span.set_attribute("gen_ai.tool.call.arguments", arguments)
        span.set_attribute("gen_ai.tool.call.result", result)


def _messages(role: str, text: str, more: dict[str, str]) -> str:
    message = {"role": role, "parts": [{"type": "text", "content": text}], **more}
    return json.dumps([message], ensure_ascii=False)
