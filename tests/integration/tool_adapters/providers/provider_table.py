"""Providers: their reports of usage and their errors."""

from decimal import Decimal
from typing import Any

from integration.tool_adapters.providers.recordings import (
    AWAY,
    DENIED,
    FAULT,
    LIMIT,
    LONG,
    MISSING,
    Provider,
    error,
    openai_error,
)

CHAT = "OPENAI_CHAT"


def counts(prompt: int = 30, completion: int = 12, **more: Any) -> dict[str, Any]:
    total = {"total_tokens": prompt + completion}
    return {"prompt_tokens": prompt, "completion_tokens": completion} | total | more


def google(code: int, status: str, message: str, *details: Any) -> list[dict[str, Any]]:
    body = {"code": code, "status": status, "message": message, "details": list(details)}
    return [{"error": body}]


def anthropic(type: str, message: str = "no") -> dict[str, Any]:
    return {"type": "error", "error": {"type": type, "message": message}, "request_id": "req_1"}


OPENAI_ERRORS = {
    "overloaded": error(AWAY, 503, openai_error(code="server_is_overloaded"), retried=True),
    "rate limit": error(
        LIMIT,
        429,
        openai_error("Rate limit reached. Please try again in 10ms.", "rate_limit_exceeded"),
        retried=True,
    ),
    "quota": error(LIMIT, 429, openai_error(code="insufficient_quota", type="insufficient_quota")),
    "wrong key": error(DENIED, 401, openai_error(code="invalid_api_key")),
    "unknown model": error(MISSING, 404, openai_error(code="model_not_found")),
    "too long": error(LONG, 400, openai_error(code="context_length_exceeded")),
    "filtered prompt": error(FAULT, 400, openai_error(code="content_filter")),
}
ANTHROPIC_ERRORS = {
    "overloaded": error(AWAY, 529, anthropic("overloaded_error"), retried=True),
    "rate limit": error(
        LIMIT, 429, anthropic("rate_limit_error"), retried=True, retry_after="0.01"
    ),
    "quota": error(LIMIT, 400, anthropic("invalid_request_error", "credit balance is too low")),
    "wrong key": error(DENIED, 401, anthropic("authentication_error")),
    "unknown model": error(MISSING, 404, anthropic("not_found_error", "model: x")),
    "too long": error(
        LONG, 400, anthropic("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum")
    ),
    "filtered prompt": error(DENIED, 403, anthropic("permission_error")),
}
PROVIDERS = {
    "openai": Provider(
        CHAT,
        counts(
            prompt_tokens_details={"cached_tokens": 10, "cache_write_tokens": 4},
            completion_tokens_details={"reasoning_tokens": 5},
        ),
        {
            "INPUT_FRESH": 16,
            "CACHE_READ": 10,
            "CACHE_WRITE_SHORT": 4,
            "OUTPUT_TEXT": 7,
            "REASONING": 5,
        },
        OPENAI_ERRORS,
    ),
    "openai responses": Provider(
        "OPENAI_RESPONSES",
        {
            "input_tokens": 30,
            "output_tokens": 12,
            "total_tokens": 42,
            "input_tokens_details": {
                "cached_tokens": 10,
                "cache_write_tokens": 4,
                "cache_write_tokens_details": {"ttl_12h_tokens": 3},
            },
            "output_tokens_details": {"reasoning_tokens": 5},
        },
        {
            "INPUT_FRESH": 16,
            "CACHE_READ": 10,
            "CACHE_WRITE_SHORT": 1,
            "CACHE_WRITE_LONG": 3,
            "OUTPUT_TEXT": 7,
            "REASONING": 5,
        },
        OPENAI_ERRORS,
    ),
    "azure": Provider(
        CHAT,
        counts(),
        {"INPUT_FRESH": 30, "OUTPUT_TEXT": 12},
        OPENAI_ERRORS
        | {
            "unknown model": error(MISSING, 404, openai_error(code="DeploymentNotFound")),
            "filtered prompt": error(
                FAULT,
                400,
                openai_error(
                    "The response was filtered",
                    "content_filter",
                    innererror={"code": "ResponsibleAIPolicyViolation"},
                ),
            ),
        },
        first=(
            {"id": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
            # The filter that runs beside the model: a choice without a delta.
            {"id": "", "choices": [{"index": 0, "content_filter_results": {}}]},
        ),
    ),
    "anthropic": Provider(
        "ANTHROPIC_MESSAGES",
        {
            "input_tokens": 20,
            "cache_read_input_tokens": 10,
            "cache_creation_input_tokens": 4,
            "cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 3},
            "output_tokens": 12,
        },
        {
            "INPUT_FRESH": 20,
            "CACHE_READ": 10,
            "CACHE_WRITE_SHORT": 1,
            "CACHE_WRITE_LONG": 3,
            "OUTPUT_TEXT": 12,
        },
        ANTHROPIC_ERRORS,
    ),
    "gemini": Provider(
        CHAT,
        # Thoughts are in the total alone.
        {"prompt_tokens": 30, "completion_tokens": 7, "total_tokens": 42},
        {"INPUT_FRESH": 30, "OUTPUT_TEXT": 12},
        {
            "overloaded": error(AWAY, 503, google(503, "UNAVAILABLE", "busy"), retried=True),
            "rate limit": error(
                LIMIT,
                429,
                google(429, "RESOURCE_EXHAUSTED", "wait", {"retryDelay": "0.01s"}),
                retried=True,
            ),
            "quota": error(
                LIMIT, 429, google(429, "RESOURCE_EXHAUSTED", "", {"quotaId": "RequestsPerDay"})
            ),
            "wrong key": error(
                DENIED, 400, google(400, "INVALID_ARGUMENT", "", {"reason": "API_KEY_INVALID"})
            ),
            "unknown model": error(MISSING, 404, google(404, "NOT_FOUND", "no such model")),
            "too long": error(
                LONG,
                400,
                google(400, "INVALID_ARGUMENT", "exceeds the maximum number of tokens allowed"),
            ),
            "filtered prompt": error(FAULT, 400, google(400, "INVALID_ARGUMENT", "blocked")),
        },
    ),
    "bedrock": Provider(
        CHAT,
        counts(),
        {"INPUT_FRESH": 30, "OUTPUT_TEXT": 12},
        {
            "overloaded": error(AWAY, 503, {"message": "busy"}, retried=True),
            "rate limit": error(
                LIMIT,
                429,
                {"message": "Too many tokens, please wait before trying again."},
                retried=True,
                x_amzn_errortype="ThrottlingException:http://internal",
                retry_after="0.01",
            ),
            "quota": error(
                LIMIT, 400, {"message": "no"}, x_amzn_errortype="ServiceQuotaExceededException"
            ),
            "wrong key": error(
                DENIED, 403, {"message": "no"}, x_amzn_errortype="AccessDeniedException"
            ),
            "unknown model": error(
                MISSING, 400, {"message": "The provided model identifier is invalid."}
            ),
            "too long": error(LONG, 400, {"message": "Input is too long for requested model."}),
            "filtered prompt": error(FAULT, 400, {"message": "blocked by a guardrail"}),
        },
    ),
    "mistral": Provider(
        CHAT,
        counts(num_cached_tokens=10),
        {"INPUT_FRESH": 20, "CACHE_READ": 10, "OUTPUT_TEXT": 12},
        OPENAI_ERRORS
        | {
            "unknown model": error(
                MISSING, 404, {"object": "error", "message": "no such model", "code": "1500"}
            ),
            "too long": error(
                LONG,
                400,
                {"object": "error", "message": "Prompt contains 9 tokens, too large for model"},
            ),
            "filtered prompt": error(
                FAULT, 422, {"object": "error", "message": {"detail": [{"msg": "no"}]}}
            ),
        },
        list_content=True,
    ),
    "deepseek": Provider(
        CHAT,
        counts(prompt_cache_hit_tokens=10, prompt_cache_miss_tokens=20),
        {"INPUT_FRESH": 20, "CACHE_READ": 10, "OUTPUT_TEXT": 12},
        OPENAI_ERRORS | {"quota": error(LIMIT, 402, openai_error("Insufficient Balance"))},
    ),
    "dashscope": Provider(
        CHAT,
        counts(),
        {"INPUT_FRESH": 30, "OUTPUT_TEXT": 12},
        OPENAI_ERRORS
        | {
            "quota": error(LIMIT, 403, openai_error(code="Arrearage")),
            "too long": error(LONG, 400, openai_error("Range of input length should be [1, 8]")),
            "filtered prompt": error(FAULT, 400, openai_error(code="data_inspection_failed")),
        },
    ),
    "xai": Provider(
        CHAT,
        # Reasoning is counted beside the completion.
        {
            "prompt_tokens": 30,
            "completion_tokens": 7,
            "total_tokens": 42,
            "completion_tokens_details": {"reasoning_tokens": 5},
            "cost_in_usd_ticks": 1_500_000,
        },
        {"INPUT_FRESH": 30, "OUTPUT_TEXT": 7, "REASONING": 5, "PROVIDER_COST": Decimal("0.00015")},
        OPENAI_ERRORS
        | {
            "quota": error(LIMIT, 403, {"code": "x", "error": "You ran out of credits."}),
            "wrong key": error(DENIED, 400, {"code": "x", "error": "Incorrect API key provided"}),
            "unknown model": error(
                MISSING, 404, {"code": "Some requested entity was not found", "error": "no x"}
            ),
            "too long": error(LONG, 400, {"code": "x", "error": "maximum prompt length is 8"}),
        },
    ),
    "groq": Provider(
        CHAT,
        counts(),
        {"INPUT_FRESH": 30, "OUTPUT_TEXT": 12},
        OPENAI_ERRORS
        | {
            "overloaded": error(AWAY, 498, openai_error(code="capacity_exceeded"), retried=True),
            "quota": error(
                LIMIT, 429, openai_error("tokens per day (TPD): try again in 9m38.016s")
            ),
        },
        thought="reasoning",
    ),
    "openrouter": Provider(
        CHAT,
        counts(cost=0.0001, completion_tokens_details={"reasoning_tokens": 13}),
        {"INPUT_FRESH": 30, "REASONING": 12, "PROVIDER_COST": Decimal("0.0001")},
        OPENAI_ERRORS
        | {
            "overloaded": error(AWAY, 529, openai_error(code=529), retried=True),
            "quota": error(LIMIT, 402, openai_error(code=402)),
            "unknown model": error(MISSING, 400, openai_error("x is not a valid model ID", 400)),
            "filtered prompt": error(
                FAULT, 403, openai_error(code=403, metadata={"flagged_input": "x"})
            ),
        },
        thought="reasoning",
    ),
    "vllm": Provider(
        CHAT,
        counts(),
        {"INPUT_FRESH": 30, "OUTPUT_TEXT": 12},
        OPENAI_ERRORS
        | {
            "too long": error(LONG, 400, openai_error("maximum context length is 8", 400)),
            "unknown model": error(MISSING, 404, openai_error("no", 404, "NotFoundError")),
        },
        thought="reasoning",
    ),
}
