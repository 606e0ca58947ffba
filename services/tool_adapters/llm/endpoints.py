import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from cachetools import TLRUCache

from podium_kit.failures import FailureKind, ToolFailure
from tool_adapters.adapter import NOTHING_USED, AdapterResult
from tool_adapters.models import LlmModel
from tool_adapters.secret_store import holder

PAUSE_S = 5.0
RESTS_MAX = 10_000
# Failures of an endpoint or its key; any other would be the same at another endpoint.
PASSED_ON = {
    FailureKind.NOT_FOUND,
    FailureKind.PERMISSION_DENIED,
    FailureKind.RATE_LIMITED,
    FailureKind.UNAVAILABLE,
}

Endpoint = tuple[str, str, str, str]


@dataclass(frozen=True)
class _Rest:
    """The time in which a failed endpoint is left alone; its end is on the monotonic clock."""

    until: float
    kind: FailureKind
    retryable: bool


class Endpoints:
    """Balances a model's calls over its endpoints, and leaves those alone that failed.

    A failed endpoint rests for the tenant of the call alone, because another tenant's question may
    succeed. The only endpoint of a model never rests.
    """

    def __init__(self) -> None:
        self._in_flight: Counter[Endpoint] = Counter()
        self._resting: TLRUCache[tuple[str, Endpoint], _Rest] = TLRUCache(
            RESTS_MAX, ttu=lambda _, rest, __: rest.until, timer=time.monotonic
        )

    async def answer(
        self,
        tenant: str,
        owner: str,
        models: Sequence[LlmModel],
        ask: Callable[[LlmModel], Awaitable[AdapterResult]],
    ) -> AdapterResult:
        """Returns the first answer, from the endpoint with the fewest calls in flight on.

        A call moves on only while nothing was bought.
        """
        if len(models) == 1:
            return await ask(models[0])
        rests: dict[str, _Rest] = {}
        unsent = True
        endpoints = [(f"endpoint {n}", _key(owner, it), it) for n, it in enumerate(models, 1)]
        for name, key, model in sorted(endpoints, key=lambda each: self._in_flight[each[1]]):
            if (rest := self._resting.get((tenant, key))) is not None:
                rest_s = rest.until - time.monotonic()
                rests[f"{name} is left alone for {rest_s:.1f} s ({rest.kind.value})"] = rest
                continue
            result = await self._counted(key, ask(model))
            unsent = unsent and result.unsent
            failure = result.outcome
            if not (isinstance(failure, ToolFailure) and _may_be_passed_on(failure, result)):
                return replace(result, unsent=unsent)
            pause_s = PAUSE_S if failure.retry_after_s is None else failure.retry_after_s
            rest = _Rest(time.monotonic() + pause_s, failure.kind, failure.retryable)
            self._resting[tenant, key] = rests[f"{name}: {failure.message}"] = rest
        return AdapterResult(_none_answered(rests), NOTHING_USED, models[0].sku, unsent=unsent)

    async def _counted(self, key: Endpoint, asked: Awaitable[AdapterResult]) -> AdapterResult:
        self._in_flight[key] += 1
        try:
            return await asked
        finally:
            self._in_flight[key] -= 1
            # Tenants write the addresses: those that are not asked are not stored.
            if not self._in_flight[key]:
                del self._in_flight[key]


def _key(owner: str, model: LlmModel) -> Endpoint:
    return holder(owner, model.secret), model.secret, model.base_url, model.model


def _may_be_passed_on(failure: ToolFailure, result: AdapterResult) -> bool:
    return (failure.retryable or failure.kind in PASSED_ON) and not result.usage.quantities


def _none_answered(rests: dict[str, _Rest]) -> ToolFailure:
    """The failure of an alias, which a retry may end as soon as one of its endpoints is asked."""
    first = min(rests.values(), key=lambda rest: (not rest.retryable, rest.until))
    message = f"none of {len(rests)} endpoints answered: {'; '.join(rests)}"
    wait_s = max(first.until - time.monotonic(), 0.0)
    return ToolFailure(first.kind, message, first.retryable, wait_s)
