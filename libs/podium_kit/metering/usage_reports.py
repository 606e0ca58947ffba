"""Token reports of providers as disjoint quantities.

OpenAI and vLLM count cached tokens inside the prompt and reasoning inside the completion; xAI and
Gemini count reasoning beside the completion, and bill it; Anthropic counts cache reads and writes
beside its input. A part that is larger than its whole is cut to it, so the quantities always add
up to what the provider counted. A report that counts nothing at all is no report: None, and the
caller estimates; an explicit zero is a count. A total that no model can reach, or that is
negative, makes a usage without quantities that says why: priced by such figures, the bill would
be wrong. A cost that the report states is a quantity beside the tokens (ADR 56). Sources: the API
references of OpenAI (chat completions and responses, "usage"), Anthropic (messages, "usage"; prompt
caching), OpenRouter (usage accounting), xAI and vLLM (OpenAI-compatible server).
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeGuard

from podium_kit.metering.usage import Dimension, Quantity, Usage, UsageSource
from podium_kit.money import AMOUNT_PLACES
from podium_kit.text import storable

Report = Mapping[str, Any]
# Of English text in the tokenizers of both; used only where no report arrived.
BYTES_PER_TOKEN = 4
# Far above any context window, far below what sums of money can hold.
COUNT_MAX = 10**12
REQUEST_ID_CHARS_MAX = 256
# Of one call, and far above any.
COST_MAX_USD = 10**6
TICKS_PER_USD = 10**10
COST_QUANTUM = Decimal(1).scaleb(-AMOUNT_PLACES)
# Of a report within a report: those of providers have two levels.
DEPTH_MAX = 8


def openai_usage(report: Report, request_id: object = "") -> Usage | None:
    """Chat completions: quantities whose sum is prompt_tokens + completion_tokens.

    Or total_tokens, where that is more: it has the reasoning that is counted beside the completion.
    """
    if reason := _unusable(report, "prompt_tokens", "completion_tokens"):
        return _unusable_usage(request_id, reason)
    if not _counts_any(report, "prompt_tokens", "completion_tokens"):
        return None
    inside_prompt = _details(report, "prompt_tokens_details")
    inside_completion = _details(report, "completion_tokens_details")
    prompt, completion = _count(report, "prompt_tokens"), _count(report, "completion_tokens")
    if all(_is_count(report.get(name)) for name in ("prompt_tokens", "completion_tokens")):
        completion = max(completion, _count(report, "total_tokens") - prompt)
    cached, audio_in, written_long, written, fresh = _split(
        prompt,
        _cached(report, inside_prompt),
        _count(inside_prompt, "audio_tokens"),
        *_cache_writes(inside_prompt),
    )
    reasoning, audio_out, text = _split(
        completion,
        _count(inside_completion, "reasoning_tokens"),
        _count(inside_completion, "audio_tokens"),
    )
    return _provider_usage(
        report,
        request_id,
        input_fresh=fresh,
        cache_read=cached,
        cache_write_short=written,
        cache_write_long=written_long,
        audio_input=audio_in,
        output_text=text,
        reasoning=reasoning,
        audio_output=audio_out,
    )


def openai_responses_usage(report: Report, request_id: object = "") -> Usage | None:
    """Responses: quantities whose sum is input_tokens + output_tokens."""
    if reason := _unusable(report, "input_tokens", "output_tokens"):
        return _unusable_usage(request_id, reason)
    if not _counts_any(report, "input_tokens", "output_tokens"):
        return None
    inside_input = _details(report, "input_tokens_details")
    cached, written_long, written, fresh = _split(
        _count(report, "input_tokens"),
        _count(inside_input, "cached_tokens"),
        *_cache_writes(inside_input),
    )
    reasoning, text = _split(
        _count(report, "output_tokens"),
        _count(_details(report, "output_tokens_details"), "reasoning_tokens"),
    )
    return _provider_usage(
        report,
        request_id,
        input_fresh=fresh,
        cache_read=cached,
        cache_write_short=written,
        cache_write_long=written_long,
        output_text=text,
        reasoning=reasoning,
    )


def anthropic_usage(report: Report, request_id: object = "") -> Usage | None:
    """Messages: input and output tokens, cache reads, cache writes by lifetime."""
    if reason := _unusable(report, "input_tokens", "output_tokens"):
        return _unusable_usage(request_id, reason)
    if not _counts_any(report, "input_tokens", "output_tokens"):
        return None
    writes = _details(report, "cache_creation")
    written = _count(report, "cache_creation_input_tokens")
    one_hour = _count(writes, "ephemeral_1h_input_tokens")
    five_minutes = _count(writes, "ephemeral_5m_input_tokens")
    return _provider_usage(
        report,
        request_id,
        input_fresh=_count(report, "input_tokens"),
        cache_read=_count(report, "cache_read_input_tokens"),
        # Without the split every write is of the default lifetime.
        cache_write_short=max(five_minutes, written - one_hour),
        cache_write_long=one_hour,
        output_text=_count(report, "output_tokens"),
        search=_count(_details(report, "server_tool_use"), "web_search_requests"),
    )


def vllm_usage(report: Report, request_id: object = "") -> Usage | None:
    """vLLM's chat completions: OpenAI's report, or a total where the completion is left out.

    A request that is cut off before its first token reports the prompt and the total alone.
    """
    if "completion_tokens" in report or not _counts_any(report, "prompt_tokens", "total_tokens"):
        return openai_usage(report, request_id)
    completion = _count(report, "total_tokens") - _count(report, "prompt_tokens")
    return openai_usage({**report, "completion_tokens": max(0, completion)}, request_id)


def merged_report(earlier: Report, later: object, depth: int = DEPTH_MAX) -> dict[str, Any]:
    """One report of two in a stream: the counts are totals, so the larger of each stands.

    Anthropic reports the input when a message starts and the output as it continues; OpenAI
    reports once, at the end, some servers with every chunk. Added up, such a stream would be
    billed again for every chunk; and a later report may leave out what an earlier one counts.
    """
    merged = dict(earlier)
    for name, value in later.items() if isinstance(later, Mapping) else ():
        known = merged.get(name)
        if isinstance(value, Mapping):
            inner = known if isinstance(known, Mapping) else {}
            merged[name] = merged_report(inner, value, depth - 1) if depth else {}
        elif not _is_count(known) or (_is_count(value) and value > known):
            merged[name] = known if value is None else value
    return merged


def estimated_usage(prompt: str, completion: str, file_tokens: int = 0) -> Usage:
    """A guess from the length of the texts, for calls whose report never arrived.

    `file_tokens` are those of files that went with the prompt.
    """
    return Usage.of(
        UsageSource.ESTIMATED,
        input_fresh=_estimated_tokens(prompt) + file_tokens,
        output_text=_estimated_tokens(completion),
    )


def _cached(report: Report, details: Report) -> int:
    """Cached tokens of the prompt; DeepSeek, Moonshot, Mistral and routers count them outside."""
    named = ("cached_tokens", "prompt_cache_hit_tokens", "num_cached_tokens")
    return max(_count(details, "cached_tokens"), *(_count(report, name) for name in named))


def _cache_writes(details: Report) -> tuple[int, int]:
    """Tokens written to OpenAI's caches of twelve hours and of thirty minutes, the default."""
    lasting = _count(_details(details, "cache_write_tokens_details"), "ttl_12h_tokens")
    return lasting, max(0, _count(details, "cache_write_tokens") - lasting)


def _split(whole: int, *parts: int) -> tuple[int, ...]:
    """The parts, each cut to what is left of the whole, and what remains."""
    taken: list[int] = []
    for part in parts:
        taken.append(min(part, whole - sum(taken)))
    return (*taken, whole - sum(taken))


def _provider_usage(report: Report, request_id: object, **amounts: int) -> Usage:
    if reason := _unusable(amounts, *amounts):
        return _unusable_usage(request_id, reason)
    quantities = Usage.of(UsageSource.PROVIDER, **amounts).quantities
    if (cost := _reported_cost(report)) is not None:
        quantities = (*quantities, Quantity(Dimension.PROVIDER_COST, cost))
    return Usage(quantities, UsageSource.PROVIDER, _id(request_id))


def _reported_cost(report: Report) -> Decimal | None:
    """The US dollars that xAI and OpenRouter report; None for none that can be charged.

    With the caller's own key (BYOK) OpenRouter's cost is its fee; the model's provider bills the
    rest.
    """
    ticks = _dollars(report.get("cost_in_usd_ticks"), TICKS_PER_USD)
    cost = _dollars(report.get("cost")) if ticks is None else ticks
    if cost is None or report.get("is_byok") is not True:
        return cost
    upstream = _dollars(_details(report, "cost_details").get("upstream_inference_cost"))
    return None if upstream is None else cost + upstream


def _dollars(value: object, units_per_usd: int = 1) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # NaN is in no range.
    if not 0 <= value <= COST_MAX_USD * units_per_usd:
        return None
    # The text of a float has the digits that the provider wrote.
    return (Decimal(str(value)) / units_per_usd).quantize(COST_QUANTUM)


def _unusable_usage(request_id: object, reason: str) -> Usage:
    return Usage((), UsageSource.PROVIDER, _id(request_id), reason)


def _id(request_id: object) -> str:
    # Some servers send no id, or null; the word "None" would be an id that calls share.
    return storable(request_id)[:REQUEST_ID_CHARS_MAX] if isinstance(request_id, str) else ""


def _unusable(report: Report, *names: str) -> str:
    """Names the number that cannot be a count of tokens; empty if all can."""
    for name in names:
        value = report.get(name)
        if not isinstance(value, int | float):
            continue
        # NaN is in no range.
        if not 0 <= value <= COUNT_MAX:
            return f"the provider reported {Decimal(value):.6g} as {name}; at most 10^12 can be"
    return ""


def _estimated_tokens(text: str) -> int:
    return -(-len(text.encode(errors="replace")) // BYTES_PER_TOKEN)


def _details(report: Report, name: str) -> Report:
    details = report.get(name)
    return details if isinstance(details, Mapping) else {}


def _counts_any(report: Report, *names: str) -> bool:
    return any(_is_count(report.get(name)) for name in names)


def _count(report: Report, name: str) -> int:
    count = report.get(name)
    return count if _is_count(count) else 0


def _is_count(value: object) -> TypeGuard[int]:
    # True is an int to Python and no count to anybody.
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
