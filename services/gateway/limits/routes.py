from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from gateway.limits.models import TenantLimits
from gateway.limits.service import LimitBook
from gateway.request_model import RequestModel
from gateway.scopes import needs
from podium_kit.rpc.identity import Scope, current_identity

Tenant = Annotated[str, Path(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]+$")]

# One in a quarter of an hour. With far fewer, the time until the next is no number of seconds.
REQUESTS_PER_S_MIN = 0.001
OPERATORS = needs(Scope.PLATFORM_ADMIN)


class ChangeLimitsRequest(RequestModel):
    """New limits; what is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")

    requests_per_s: float | None = Field(None, ge=REQUESTS_PER_S_MIN, le=1e6)
    burst: int | None = Field(None, ge=1, le=1_000_000)
    concurrency: int | None = Field(None, ge=1, le=1_000_000)
    running_episodes: int | None = Field(None, ge=1, le=1_000_000)
    files: int | None = Field(None, ge=0, le=10**9)
    file_bytes: int | None = Field(None, ge=0, le=10**15)


class LimitsResource(BaseModel):
    """The limits of a tenant over all replicas of the gateway together."""

    tenant: str
    requests_per_s: float
    burst: int = Field(description="requests that may come at once")
    concurrency: int = Field(description="open requests, streams included")
    running_episodes: int = Field(
        description="episodes, and as many direct calls, that may run at once"
    )
    files: int | None = Field(
        description="images and PDF files of requests that are kept; null: the platform's default"
    )
    file_bytes: int | None = Field(description="bytes of those files; null: the platform's default")

    @classmethod
    def of(cls, tenant: str, limits: TenantLimits) -> "LimitsResource":
        return cls(tenant=tenant, **vars(limits))


def limit_router(book: LimitBook) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["Limits"])

    @router.get("/limits", operation_id="GetLimits")
    async def own() -> LimitsResource:
        tenant = current_identity().tenant
        return LimitsResource.of(tenant, await book.of(tenant))

    @router.get("/tenants/{tenant}/limits", operation_id="GetTenantLimits", **OPERATORS)
    async def get(tenant: Tenant) -> LimitsResource:
        return LimitsResource.of(tenant, await book.of(tenant))

    @router.put("/tenants/{tenant}/limits", operation_id="ChangeTenantLimits", **OPERATORS)
    async def put(tenant: Tenant, body: ChangeLimitsRequest) -> LimitsResource:
        return LimitsResource.of(
            tenant, await book.change(tenant, body.model_dump(exclude_none=True))
        )

    @router.delete("/tenants/{tenant}/limits", operation_id="ResetTenantLimits", **OPERATORS)
    async def reset(tenant: Tenant) -> LimitsResource:
        return LimitsResource.of(tenant, await book.change(tenant, None))

    return router
