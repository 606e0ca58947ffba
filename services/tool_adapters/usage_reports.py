"""What providers report about tokens, as disjoint quantities.

OpenAI counts cached tokens inside prompt_tokens and reasoning inside completion_tokens;
Anthropic counts cache reads and writes beside input_tokens. Sources: OpenAI's API reference
of chat completions ("usage"), Anthropic's of messages ("usage") and of prompt caching.
"""

from collections.abc import Mapping
from typing import Any

from metering import Usage, UsageSource

Report = Mapping[str, Any]
# Of English text in the tokenizers of both; used only where no report arrived.
BYTES_PER_TOKEN = 4


def openai_usage(report: Report, request_id: str = "") -> Usage:
    """Disjoint quantities whose sum is prompt_tokens + completion_tokens."""
    prompt, completion = _count(report, "prompt_tokens"), _count(report, "completion_tokens")
    inside_prompt = _details(report, "prompt_tokens_details")
    inside_completion = _details(report, "completion_tokens_details")
    # Clamped in turn, so that a report that contradicts itself still adds up.
    cached = min(_count(inside_prompt, "cached_tokens"), prompt)
    audio_in = min(_count(inside_prompt, "audio_tokens"), prompt - cached)
    reasoning = min(_count(inside_completion, "reasoning_tokens"), completion)
    audio_out = min(_count(inside_completion, "audio_tokens"), completion - reasoning)
    return _provider_usage(
        request_id,
        input_fresh=prompt - cached - audio_in,
        cache_read=cached,
        audio_input=audio_in,
        output_text=completion - reasoning - audio_out,
        reasoning=reasoning,
        audio_output=audio_out,
    )


def anthropic_usage(report: Report, request_id: str = "") -> Usage:
    """Disjoint quantities: input and output tokens, cache reads, cache writes by lifetime."""
    written = _count(report, "cache_creation_input_tokens")
    one_hour = _count(_details(report, "cache_creation"), "ephemeral_1h_input_tokens")
    five_minutes = _count(_details(report, "cache_creation"), "ephemeral_5m_input_tokens")
    return _provider_usage(
        request_id,
        input_fresh=_count(report, "input_tokens"),
        cache_read=_count(report, "cache_read_input_tokens"),
        # Without the split every write is of the default lifetime.
        cache_write_5m=max(five_minutes, written - one_hour),
        cache_write_1h=one_hour,
        output_text=_count(report, "output_tokens"),
        search=_count(_details(report, "server_tool_use"), "web_search_requests"),
    )


def estimated_usage(prompt: str, completion: str) -> Usage:
    """A guess from the length of the texts, for calls whose report never arrived."""
    return Usage.of(
        UsageSource.ESTIMATED,
        input_fresh=_estimated_tokens(prompt),
        output_text=_estimated_tokens(completion),
    )


def _provider_usage(request_id: str, **amounts: int) -> Usage:
    usage = Usage.of(UsageSource.PROVIDER, **amounts)
    return Usage(usage.quantities, usage.source, request_id)


def _estimated_tokens(text: str) -> int:
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def _details(report: Report, name: str) -> Report:
    details = report.get(name)
    return details if isinstance(details, Mapping) else {}


def _count(report: Report, name: str) -> int:
    count = report.get(name)
    return count if isinstance(count, int) and count > 0 else 0
