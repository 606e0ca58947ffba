import asyncio
from collections.abc import Sequence
from decimal import Decimal

import grpc

from podium.ledger.v1 import budget_service_pb2 as budget_pb
from podium.ledger.v1 import price_book_service_pb2 as pb
from podium.ledger.v1.budget_service_pb2_grpc import BudgetServiceStub
from podium.ledger.v1.price_book_service_pb2_grpc import PriceBookServiceStub
from podium_kit.metering import Dimension
from podium_kit.rpc.errors import DeadlineExceeded, NotFound, Unavailable
from podium_kit.rpc.status import answered
from podium_kit.wire.values import dimension_from_proto
from tool_registry.errors import PricesUnavailable
from tool_registry.models import Price, PriceComponent

SKUS_PER_CALL = 1000
TIMEOUT_S = 5.0


class EffectivePrices:
    """A price that is not known is missing, never zero."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = PriceBookServiceStub(channel)

    async def prices(self, skus: frozenset[str]) -> dict[str, Price]:
        ordered = sorted(skus)
        parts = [ordered[at : at + SKUS_PER_CALL] for at in range(0, len(ordered), SKUS_PER_CALL)]
        found = await asyncio.gather(*(self._ask(part) for part in parts))
        return {sku: price for prices in found for sku, price in prices.items()}

    async def _ask(self, skus: list[str]) -> dict[str, Price]:
        request = pb.GetEffectivePricesRequest(skus=skus)
        try:
            reply = await answered(self._stub.GetEffectivePrices(request, timeout=TIMEOUT_S))
        except (Unavailable, DeadlineExceeded) as error:
            raise PricesUnavailable from error
        return {sku: _price(price.spec) for sku, price in reply.prices.items()}


class LedgerBudgets:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = BudgetServiceStub(channel)

    async def missing(self, budget_ids: Sequence[str]) -> list[str]:
        found = await asyncio.gather(*map(self._exists, budget_ids))
        return [each for each, exists in zip(budget_ids, found, strict=True) if not exists]

    async def _exists(self, budget_id: str) -> bool:
        request = budget_pb.GetBudgetRequest(id=budget_id)
        try:
            await answered(self._stub.GetBudget(request, timeout=TIMEOUT_S))
        except NotFound:
            return False
        except (Unavailable, DeadlineExceeded) as error:
            raise PricesUnavailable from error
        return True


def _price(spec: pb.PriceSpec) -> Price:
    """The most expensive band and hour of each dimension: an upper bound."""
    most_expensive: dict[Dimension, PriceComponent] = {}
    for part in map(_component, spec.components):
        known = most_expensive.get(part.dimension)
        if known is None or part.of_one_unit > known.of_one_unit:
            most_expensive[part.dimension] = part
    return Price(spec.currency_code, tuple(most_expensive.values()))


def _component(part: pb.PriceComponent) -> PriceComponent:
    dimension: Dimension = dimension_from_proto(part.dimension)
    return PriceComponent(dimension, Decimal(part.unit_price), Decimal(part.per or "1"))
