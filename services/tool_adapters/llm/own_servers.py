"""Model servers of the platform's own, which may run only while they are asked."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal

from opentelemetry.metrics import CallbackOptions, Observation

from podium_kit import telemetry
from podium_kit.failures import ToolFailure
from podium_kit.metering import Dimension, Quantity, Usage
from tool_adapters.adapter import AdapterResult, CallFailed, CutOff
from tool_adapters.http.client import host_of
from tool_adapters.models import LlmModel

RETRY_S = 1.0


class OwnServers:
    """Waits for a server that no pod serves yet, and counts the seconds of its calls beside tokens.

    The open calls of each server are a gauge, by which KEDA starts its pods. They are 0 before the
    first call, because a gauge without a value would be a failure to KEDA.
    """

    def __init__(self, hosts: Collection[str]) -> None:
        self._open = dict.fromkeys(hosts, 0)
        telemetry.get_meter(__name__).create_observable_gauge(
            "podium.experts.calls.open",
            [self._reported],
            unit="{call}",
            description="calls of a model server of the platform's own that wait for it or run",
        )

    async def answer(
        self, model: LlmModel, cut: CutOff, ask: Callable[[LlmModel], Awaitable[AdapterResult]]
    ) -> AdapterResult:
        """Asks again while no connection is made; the tool's timeout ends it."""
        host = ""
        with suppress(CallFailed):
            host = host_of(model.base_url)
        if host not in self._open:
            return await ask(model)
        self._open[host] += 1
        cut.timed = True
        try:
            while True:
                result = await _timed(model, cut, ask)
                if not (result.unsent and _is_temporary(result)):
                    return result
                await asyncio.sleep(RETRY_S)
        finally:
            self._open[host] -= 1

    def _reported(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(calls, {"server.address": it}) for it, calls in self._open.items()]


async def _timed(
    model: LlmModel, cut: CutOff, ask: Callable[[LlmModel], Awaitable[AdapterResult]]
) -> AdapterResult:
    began = time.monotonic()
    try:
        result = await ask(model)
    except asyncio.CancelledError:
        if cut.usage is not None:
            cut.usage = _with_seconds(cut.usage, time.monotonic() - began)
        raise
    return replace(result, usage=_with_seconds(result.usage, time.monotonic() - began))


def _with_seconds(usage: Usage, seconds: float) -> Usage:
    """Adds the seconds of a call, unless it did not reach the model."""
    if not usage.quantities:
        return usage
    taken = Quantity(Dimension.SECOND, Decimal(f"{seconds:.3f}"))
    return replace(usage, quantities=(*usage.quantities, taken))


def _is_temporary(result: AdapterResult) -> bool:
    return isinstance(result.outcome, ToolFailure) and result.outcome.retryable
