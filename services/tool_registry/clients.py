"""Prices from cost-ledger, remembered for a few seconds per tenant."""

import time
from collections.abc import Iterable
from decimal import Decimal

import grpc

from metering import Dimension
from podium.ledger.v1 import price_book_service_pb2 as pb
from podium.ledger.v1.price_book_service_pb2_grpc import PriceBookServiceStub
from rpckit.status import domain_error_from
from tool_registry.models import Price, PriceComponent
from wire.usage import dimension_from_proto

FRESH_S = 5.0
SKUS_PER_CALL = 1000


class PriceBook:
    """What SKUs cost a tenant now. A price that is not known is missing, never zero."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = PriceBookServiceStub(channel)
        self._known: dict[str, dict[str, tuple[float, Price | None]]] = {}

    async def prices(self, tenant: str, skus: Iterable[str]) -> dict[str, Price]:
        """Prices by SKU. Raises Unavailable when cost-ledger does not answer."""
        known = self._known.setdefault(tenant, {})
        now = time.monotonic()
        wanted = set(skus)
        stale = sorted(sku for sku in wanted if known.get(sku, (0.0, None))[0] < now)
        for start in range(0, len(stale), SKUS_PER_CALL):
            await self._fetch(known, stale[start : start + SKUS_PER_CALL], now + FRESH_S)
        return {sku: price for sku in wanted if (price := known[sku][1]) is not None}

    async def _fetch(
        self, known: dict[str, tuple[float, Price | None]], skus: list[str], until: float
    ) -> None:
        try:
            reply = await self._stub.GetEffectivePrices(pb.GetEffectivePricesRequest(skus=skus))
        except grpc.aio.AioRpcError as error:
            raise domain_error_from(error) from error
        for sku in skus:
            price = _price(reply.prices[sku].spec) if sku in reply.prices else None
            known[sku] = (until, price)


def _price(spec: pb.PriceSpec) -> Price:
    return Price(spec.currency_code, tuple(_component(part) for part in spec.components))


def _component(part: pb.PriceComponent) -> PriceComponent:
    dimension: Dimension = dimension_from_proto(part.dimension)
    return PriceComponent(dimension, Decimal(part.unit_price), Decimal(part.per or "1"))
