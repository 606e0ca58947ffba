"""/v1/audit-log: who changed what of the caller's tenant, newest first."""

from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from gateway.audit.models import AuditFilter, AuditRecord
from gateway.audit.service import AuditLog
from gateway.request_model import Time
from gateway.scopes import needs
from podium_kit.rpc.identity import Scope, current_identity
from podium_kit.rpc.pages import InvalidPageToken, decode_page_token, encode_page_token, page_size

PAGE_SIZE_DEFAULT = 50
PAGE_SIZE_MAX = 500


class AuditEntryResource(BaseModel):
    """One administrative change, or an attempt at it."""

    id: str
    time: datetime
    subject: str = Field(description="who asked for it")
    credential: str = Field(description="with what: an API key's id, an OIDC issuer")
    action: str = Field(description="the RPC or operation, like RegisterTool")
    resource: str = Field(description="what it was about, like a tool's name")
    request_id: str = Field(description="x-request-id of the request")
    outcome: str = Field(description="done, rejected, or unknown when the gateway ended meanwhile")
    rejection: str = Field(description="reason of a rejection, like SCOPE_MISSING")
    requested: dict[str, Any] = Field(description="what was asked for, without secrets")
    before: dict[str, Any] | None = Field(description="the resource before; null if there was none")
    after: dict[str, Any] | None = Field(description="the answer; null unless done")

    @classmethod
    def of(cls, record: AuditRecord) -> "AuditEntryResource":
        outcome = {None: "unknown", "": "done"}.get(record.rejection, "rejected")
        values = {**asdict(record), "outcome": outcome, "rejection": record.rejection or ""}
        return cls.model_validate(values)


class ListAuditLogResponse(BaseModel):
    """A page of entries."""

    entries: list[AuditEntryResource]
    next_page_token: str


def audit_router(log: AuditLog) -> APIRouter:
    router = APIRouter(prefix="/v1/audit-log", tags=["Audit log"])

    @router.get("", operation_id="ListAuditLog", **needs(Scope.AUDIT_READ))
    async def list_entries(
        *,
        subject: str = "",
        action: str = "",
        resource: str = "",
        since: Time | None = None,
        until: Time | None = None,
        size: int = Query(0, alias="page_size"),
        page_token: str = "",
    ) -> ListAuditLogResponse:
        reader = current_identity()
        limit = page_size(size, PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX)
        keep = AuditFilter(subject, action, resource, since, until)
        page = await log.list(reader.tenant, keep, _before_id(page_token), limit)
        more = encode_page_token({"before_id": page[-1].id}) if len(page) == limit else ""
        return ListAuditLogResponse(
            entries=[AuditEntryResource.of(record) for record in page], next_page_token=more
        )

    return router


def _before_id(page_token: str) -> str:
    before_id = decode_page_token(page_token).get("before_id", "")
    try:
        return str(UUID(before_id)) if before_id else ""
    except ValueError:
        raise InvalidPageToken from None
