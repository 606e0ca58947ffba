# Written by `make sdk` from podium_client/_async; do not edit.
"""A tenant's API keys, limits and audit log."""

from collections.abc import Sequence
from datetime import datetime

from podium_client._sync.pages import Pages
from podium_client._sync.transport import Transport
from podium_client.models import (
    ApiKey,
    ApiKeyResponse,
    AuditEntry,
    ChangeLimitsRequest,
    CreateApiKeyRequest,
    CreateApiKeyResponse,
    Limits,
    ListApiKeysResponse,
    ListAuditLogResponse,
    RotateApiKeyResponse,
)
from podium_client.wire import path

KEY = "/v1/api-keys/{id}"
LIMITS = "/v1/tenants/{tenant}/limits"


class Keys:
    """API keys. A new key's text is in one answer alone: a lost one is not asked for again."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(
        self,
        subject: str,
        *,
        scopes: Sequence[str] = (),
        roles: Sequence[str] = (),
        teams: Sequence[str] = (),
        expire_time: datetime | None = None,
    ) -> CreateApiKeyResponse:
        """The key and its text, which is shown this once."""
        body = CreateApiKeyRequest(
            subject=subject,
            scopes=[*scopes],
            roles=[*roles],
            teams=[*teams],
            expire_time=expire_time,
        )
        return self._transport.call(
            "POST", "/v1/api-keys", CreateApiKeyResponse, body=body, repeatable=False
        )

    def list(self, *, page_size: int = 0) -> Pages[ApiKey]:
        """Lists keys without their secrets."""
        return self._transport.pages(
            "/v1/api-keys",
            ListApiKeysResponse,
            lambda page: (page.api_keys, page.next_page_token),
            {"page_size": page_size},
        )

    def rotate(self, key_id: str, *, overlap_s: float | None = None) -> RotateApiKeyResponse:
        """A key in its place; the old one continues working for a while."""
        body = {} if overlap_s is None else {"overlap_s": overlap_s}
        address = path(KEY + "/rotate", id=key_id)
        return self._transport.call(
            "POST", address, RotateApiKeyResponse, body=body, repeatable=False
        )

    def revoke(self, key_id: str) -> ApiKey:
        """Ends it."""
        address = path(KEY + "/revoke", id=key_id)
        return (self._transport.call("POST", address, ApiKeyResponse)).api_key


class Tenancy:
    """Limits, and who changed what."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def limits(self) -> Limits:
        """Returns the limits of the caller's tenant."""
        return self._transport.call("GET", "/v1/limits", Limits)

    def limits_of(self, tenant: str) -> Limits:
        """Returns the limits of any tenant; platform admins only."""
        return self._transport.call("GET", path(LIMITS, tenant=tenant), Limits)

    def change_limits(self, tenant: str, changes: ChangeLimitsRequest) -> Limits:
        """Changes what is given; platform admins only."""
        address = path(LIMITS, tenant=tenant)
        return self._transport.call("PUT", address, Limits, body=changes)

    def reset_limits(self, tenant: str) -> Limits:
        """Back to the platform's; platform admins only."""
        return self._transport.call("DELETE", path(LIMITS, tenant=tenant), Limits)

    def audit_log(
        self,
        *,
        subject: str = "",
        action: str = "",
        resource: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        page_size: int = 0,
    ) -> Pages[AuditEntry]:
        """Administrative changes, newest first."""
        return self._transport.pages(
            "/v1/audit-log",
            ListAuditLogResponse,
            lambda page: (page.entries, page.next_page_token),
            {
                "subject": subject,
                "action": action,
                "resource": resource,
                "since": since,
                "until": until,
                "page_size": page_size,
            },
        )
