from typing import Any

import grpc

from cost_ledger.access import tenant_named
from cost_ledger.prices.convert import (
    after_from_token,
    created_to_proto,
    next_prices_page,
    price_to_proto,
    question_from_proto,
    spec_from_proto,
)
from cost_ledger.prices.service import PriceBook
from cost_ledger.prices.specs import check_owned
from podium.ledger.v1 import price_book_service_pb2 as pb
from podium.ledger.v1 import price_book_service_pb2_grpc as rpc
from podium_kit.rpc.identity import Scope, current_identity
from podium_kit.rpc.pages import page_size
from podium_kit.wire import optional_time

Context = grpc.aio.ServicerContext[Any, Any]


class PriceBookServicer(rpc.PriceBookServiceServicer):
    def __init__(self, prices: PriceBook) -> None:
        self._prices = prices

    async def CreatePrices(
        self, request: pb.CreatePricesRequest, context: Context
    ) -> pb.CreatePricesResponse:
        caller = current_identity()
        specs = [spec_from_proto(spec, caller.tenant) for spec in request.specs]
        if not caller.may(Scope.PLATFORM_ADMIN):
            check_owned(specs, caller.tenant)
        return created_to_proto(await self._prices.create(specs, request.validate_only))

    async def DeletePrices(
        self, request: pb.DeletePricesRequest, context: Context
    ) -> pb.DeletePricesResponse:
        tenant = tenant_named(request.tenant)
        tenants = (tenant,) if request.tenant else (tenant, "")
        deleted = await self._prices.delete(tenants, list(dict.fromkeys(request.ids)))
        return pb.DeletePricesResponse(prices=[price_to_proto(each) for each in deleted])

    async def ListPrices(
        self, request: pb.ListPricesRequest, context: Context
    ) -> pb.ListPricesResponse:
        limit = page_size(request.page_size, 100, 1000)
        versions = await self._prices.page(
            current_identity().tenant,
            request.sku_prefix,
            after_from_token(request.page_token),
            limit,
            optional_time(request, "known_at"),
        )
        return pb.ListPricesResponse(
            prices=[price_to_proto(version) for version in versions],
            next_page_token=next_prices_page(versions, limit),
        )

    async def GetEffectivePrices(
        self, request: pb.GetEffectivePricesRequest, context: Context
    ) -> pb.GetEffectivePricesResponse:
        asked = question_from_proto(request)
        found = await self._prices.effective(current_identity().tenant, list(request.skus), asked)
        return pb.GetEffectivePricesResponse(
            prices={sku: price_to_proto(version) for sku, version in found.items()}
        )
