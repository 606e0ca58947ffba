from datetime import datetime, timedelta

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from gateway.keys.models import ApiKey, KeyRequest
from gateway.keys.service import ApiKeys, check_grantable, creators_by
from gateway.request_model import RequestModel, Time
from gateway.scopes import needs
from podium_kit.rpc.identity import ROLE_SCOPES, Identity, Role, Scope, current_identity
from podium_kit.rpc.pages import decode_page_token, encode_page_token, page_size

PAGE_SIZE_DEFAULT = 50
PAGE_SIZE_MAX = 500
OVERLAP_S_DEFAULT = 24 * 3_600.0
OVERLAP_S_MAX = 90 * 24 * 3_600.0
ADMINS = needs(Scope.TENANT_ADMIN)


class CreateApiKeyRequest(RequestModel):
    """Asks for a key of the caller's tenant."""

    model_config = ConfigDict(extra="forbid")

    subject: str = Field(description="whose key it is: a person or an application")
    scopes: list[str] = Field([], description="what it may do, like episodes:run")
    roles: list[Role] = Field([], description="what its owner is, like developer")
    teams: list[str] = Field(
        [], description="what its owner works in: policies bind them, their budgets are charged"
    )
    agents: list[str] = Field([], description="the agents it is for, whose budgets are charged")
    expire_time: Time | None = Field(None, description="unset means never")

    def of(self, admin: Identity) -> KeyRequest:
        check_grantable(admin, self.scopes, self.roles)
        return KeyRequest(
            tenant=admin.tenant,
            subject=self.subject,
            scopes=frozenset(self.scopes),
            roles=frozenset(self.roles),
            teams=frozenset(self.teams),
            agents=frozenset(self.agents),
            creators=creators_by(admin),
            expire_time=self.expire_time,
        )


class RotateApiKeyRequest(RequestModel):
    """Asks for a key in the place of another."""

    model_config = ConfigDict(extra="forbid")

    overlap_s: float = Field(
        OVERLAP_S_DEFAULT,
        ge=0,
        le=OVERLAP_S_MAX,
        description="seconds the old key continues working",
    )


class ApiKeyResource(BaseModel):
    """A key without its secret."""

    id: str
    subject: str
    scopes: list[str]
    roles: list[Role]
    teams: list[str]
    agents: list[str]
    creators: list[str] = Field(description="who had its text: they created or rotated it")
    create_time: datetime
    expire_time: datetime | None
    revoke_time: datetime | None
    last_used_time: datetime | None = Field(description="some seconds behind; unset means never")
    successor_id: str | None = Field(description="the key that rotation put in its place")
    origin_id: str = Field(description="the first key of its rotations, which policies bind")

    @classmethod
    def of(cls, key: ApiKey) -> "ApiKeyResource":
        values = vars(key) | {"origin_id": key.origin_id or key.id}
        sets = ("scopes", "roles", "teams", "agents", "creators")
        return cls(**values | {name: sorted(values[name]) for name in sets})


class CreateApiKeyResponse(BaseModel):
    """The key, and the text to send: it is shown this once and stored nowhere."""

    api_key: ApiKeyResource
    key: str


class RotateApiKeyResponse(CreateApiKeyResponse):
    """The new key, its text, and until when the old one works."""

    old_api_key: ApiKeyResource


class ApiKeyResponse(BaseModel):
    """The key."""

    api_key: ApiKeyResource


class ListApiKeysResponse(BaseModel):
    """A page of keys."""

    api_keys: list[ApiKeyResource]
    next_page_token: str


class GrantableRole(BaseModel):
    """A role, and what it allows."""

    role: Role
    scopes: list[str]
    grantable: bool = Field(description="whether the caller may create a key that has it")


class ListRolesResponse(BaseModel):
    """All roles."""

    roles: list[GrantableRole]


def roles_router() -> APIRouter:
    router = APIRouter(prefix="/v1/roles", tags=["API keys"])

    @router.get("", operation_id="ListRoles")
    async def list_roles() -> ListRolesResponse:
        caller = current_identity()
        return ListRolesResponse(
            roles=[
                GrantableRole(
                    role=role,
                    scopes=sorted(scopes),
                    grantable=caller.may(Scope.TENANT_ADMIN) and all(map(caller.may, scopes)),
                )
                for role, scopes in ROLE_SCOPES.items()
            ]
        )

    return router


def api_key_router(keys: ApiKeys) -> APIRouter:
    router = APIRouter(prefix="/v1/api-keys", tags=["API keys"])

    @router.post("", operation_id="CreateApiKey", **ADMINS)
    async def create(body: CreateApiKeyRequest) -> CreateApiKeyResponse:
        admin = current_identity()
        key, text = await keys.issue(body.of(admin))
        return CreateApiKeyResponse(api_key=ApiKeyResource.of(key), key=text)

    @router.get("", operation_id="ListApiKeys", **ADMINS)
    async def list_keys(
        size: int = Query(0, alias="page_size"), page_token: str = ""
    ) -> ListApiKeysResponse:
        admin = current_identity()
        limit = page_size(size, PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX)
        after_id = decode_page_token(page_token).get("after_id", "")
        page = await keys.list(admin.tenant, after_id, limit)
        more = encode_page_token({"after_id": page[-1].id}) if len(page) == limit else ""
        return ListApiKeysResponse(
            api_keys=[ApiKeyResource.of(key) for key in page], next_page_token=more
        )

    @router.post("/{key_id}/rotate", operation_id="RotateApiKey", **ADMINS)
    async def rotate(key_id: str, body: RotateApiKeyRequest) -> RotateApiKeyResponse:
        admin = current_identity()
        overlap = timedelta(seconds=body.overlap_s)
        old, new, text = await keys.rotate(admin, key_id, overlap)
        return RotateApiKeyResponse(
            api_key=ApiKeyResource.of(new), key=text, old_api_key=ApiKeyResource.of(old)
        )

    @router.post("/{key_id}/revoke", operation_id="RevokeApiKey", **ADMINS)
    async def revoke(key_id: str) -> ApiKeyResponse:
        admin = current_identity()
        return ApiKeyResponse(api_key=ApiKeyResource.of(await keys.revoke(admin, key_id)))

    return router
