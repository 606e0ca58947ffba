"""Another model answers when the one a call asks for cannot.

Only a model that used nothing is replaced: what was paid for is not bought twice, and so the
answer has one model and one price.
"""

import time
from collections.abc import Awaitable, Callable, Iterator

from podium_kit.failures import FailureKind, ToolFailure
from tool_adapters.adapter import Answer, ToolCall
from tool_adapters.models import ToolDefinition

# Failures of the model's server; any other would be the same with another model.
PASSED_ON = {FailureKind.UNAVAILABLE, FailureKind.RATE_LIMITED, FailureKind.TIMEOUT}


async def first_answer(
    call: ToolCall, tool: ToolDefinition, make: Callable[[ToolCall, float], Awaitable[Answer]]
) -> Answer:
    """Returns the first answer of the models in turn; `make` gets the call and its seconds."""
    until = time.monotonic() + tool.limits.timeout_s
    candidates = _candidates(call, tool)
    answer = await make(next(candidates), tool.limits.timeout_s)
    for candidate in candidates:
        left_s = until - time.monotonic()
        if left_s <= 0 or not _may_be_passed_on(answer):
            break
        answer = await make(candidate, left_s)
    return answer


def _candidates(call: ToolCall, tool: ToolDefinition) -> Iterator[ToolCall]:
    yield call
    others = (alias for alias in call.fallback_models if alias in tool.aliases)
    yield from (call.asking(alias) for alias in others if alias != call.model_alias)


def _may_be_passed_on(answer: Answer) -> bool:
    outcome = answer.outcome
    failed = isinstance(outcome, ToolFailure) and outcome.kind in PASSED_ON
    return failed and not answer.usage.quantities
