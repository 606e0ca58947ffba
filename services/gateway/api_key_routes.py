"""/v1/api-keys: a tenant's admin creates, lists and revokes the tenant's keys."""

from datetime import datetime

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from gateway.api_keys import ApiKey, ApiKeys, check_grantable
from rpckit.identity import Scope, require_scope
from rpckit.pages import decode_page_token, encode_page_token, page_size

PAGE_SIZE_DEFAULT = 50
PAGE_SIZE_MAX = 500


class CreateApiKeyRequest(BaseModel):
    """Asks for a key of the caller's tenant."""

    model_config = ConfigDict(extra="forbid")

    subject: str = Field(description="whose key it is: a person or an application")
    scopes: list[str] = Field(min_length=1, description="what it may do, like episodes:run")
    expire_time: datetime | None = Field(None, description="unset means never")


class ApiKeyResource(BaseModel):
    """A key without its secret."""

    id: str
    subject: str
    scopes: list[str]
    create_time: datetime
    expire_time: datetime | None
    revoke_time: datetime | None

    @classmethod
    def of(cls, key: ApiKey) -> "ApiKeyResource":
        """The resource of a key."""
        return cls(**{**vars(key), "scopes": sorted(key.scopes)})


class CreateApiKeyResponse(BaseModel):
    """The key, and the text to send: it is shown this once and stored nowhere."""

    api_key: ApiKeyResource
    key: str


class ApiKeyResponse(BaseModel):
    """The key."""

    api_key: ApiKeyResource


class ListApiKeysResponse(BaseModel):
    """A page of keys."""

    api_keys: list[ApiKeyResource]
    next_page_token: str


def api_key_router(keys: ApiKeys) -> APIRouter:
    """The routes."""
    router = APIRouter(prefix="/v1/api-keys", tags=["API keys"])

    @router.post("", operation_id="CreateApiKey")
    async def create(body: CreateApiKeyRequest) -> CreateApiKeyResponse:
        admin = require_scope(Scope.TENANT_ADMIN)
        check_grantable(admin, body.scopes)
        key, text = await keys.issue(admin.tenant, body.subject, body.scopes, body.expire_time)
        return CreateApiKeyResponse(api_key=ApiKeyResource.of(key), key=text)

    @router.get("", operation_id="ListApiKeys")
    async def list_keys(
        size: int = Query(0, alias="page_size"), page_token: str = ""
    ) -> ListApiKeysResponse:
        admin = require_scope(Scope.TENANT_ADMIN)
        limit = page_size(size, PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX)
        after_id = decode_page_token(page_token).get("after_id", "")
        page = await keys.list(admin.tenant, after_id, limit)
        more = encode_page_token({"after_id": page[-1].id}) if len(page) == limit else ""
        return ListApiKeysResponse(
            api_keys=[ApiKeyResource.of(key) for key in page], next_page_token=more
        )

    @router.post("/{key_id}/revoke", operation_id="RevokeApiKey")
    async def revoke(key_id: str) -> ApiKeyResponse:
        admin = require_scope(Scope.TENANT_ADMIN)
        return ApiKeyResponse(api_key=ApiKeyResource.of(await keys.revoke(admin.tenant, key_id)))

    return router
