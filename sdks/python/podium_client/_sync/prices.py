# Written by `make sdk` from podium_client/_async; do not edit.
"""Prices: versions that never change."""

from collections.abc import Sequence
from datetime import datetime

from podium_client._sync.pages import Pages
from podium_client._sync.transport import Transport
from podium_client.models import (
    CreatePricesRequest,
    CreatePricesResponse,
    DeletePricesResponse,
    GetEffectivePricesResponse,
    ListPricesResponse,
    Price,
    PriceSpec,
)


class Prices:
    """The price book."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(
        self, specs: Sequence[PriceSpec], *, validate_only: bool = False
    ) -> CreatePricesResponse:
        """All of them, or none; the same price again keeps its version."""
        body = CreatePricesRequest(specs=[*specs], validate_only=validate_only)
        return self._transport.call("POST", "/v1/prices", CreatePricesResponse, body=body)

    def delete(self, ids: Sequence[str]) -> Sequence[Price]:
        """Deletes versions that no call used, all or none; what was used stays (Conflict)."""
        reply = self._transport.call(
            "DELETE", "/v1/prices", DeletePricesResponse, query={"ids": [*ids]}
        )
        return reply.prices

    def list(
        self, sku_prefix: str = "", *, known_at: datetime | None = None, page_size: int = 0
    ) -> Pages[Price]:
        """Versions in the order of their SKUs."""
        return self._transport.pages(
            "/v1/prices",
            ListPricesResponse,
            lambda page: (page.prices, page.next_page_token),
            {"sku_prefix": sku_prefix, "known_at": known_at, "page_size": page_size},
        )

    def effective(
        self,
        skus: Sequence[str],
        *,
        at: datetime | None = None,
        known_at: datetime | None = None,
        service_class: str = "",
        region: str = "",
    ) -> dict[str, Price]:
        """Returns the tenant's price of each SKU, now or at a time; a SKU without a price is
        missing.
        """
        reply = self._transport.call(
            "GET",
            "/v1/prices/effective",
            GetEffectivePricesResponse,
            query={
                "skus": [*skus],
                "at": at,
                "known_at": known_at,
                "service_class": service_class,
                "region": region,
            },
        )
        return reply.prices
