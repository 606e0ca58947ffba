"""API keys: `pod_<id>_<secret>`, the secret being 256 random bits.

Only the SHA-256 of the secret is stored. A random secret needs no slow hash: there is
no dictionary to try, and every request would pay for the slowness.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from cachetools import TTLCache

from gateway.errors import (
    ApiKeyNotFound,
    ExpiredApiKey,
    InvalidApiKey,
    InvalidApiKeyRequest,
    RevokedApiKey,
    ScopeNotGrantable,
    UnknownScope,
)
from rpckit.identity import TENANT_SCOPES, Identity, Scope
from rpckit.pages import InvalidPageToken

PREFIX = "pod"
CACHED_KEYS_MAX = 10_000
NAME_CHARACTERS_MAX = 128
KEY_ID = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class ApiKey:
    """An issued key, without its secret."""

    id: str
    tenant: str
    subject: str
    scopes: frozenset[str]
    secret_hash: bytes
    create_time: datetime
    expire_time: datetime | None = None
    revoke_time: datetime | None = None

    def identity(self) -> Identity:
        """Who calls with this key."""
        return Identity(self.tenant, self.subject, self.scopes)


class ApiKeyStore(Protocol):
    """Where issued keys are kept."""

    async def insert(self, key: ApiKey) -> None: ...
    async def get(self, key_id: str) -> ApiKey | None: ...
    async def list(self, tenant: str, after_id: str, limit: int) -> list[ApiKey]: ...
    async def revoke(self, tenant: str, key_id: str) -> ApiKey | None: ...


class ApiKeys:
    """Issues, verifies and revokes keys; a verified key is remembered a few seconds."""

    def __init__(self, store: ApiKeyStore, cache_s: float) -> None:
        self._store = store
        self._cache: TTLCache[str, ApiKey] = TTLCache(CACHED_KEYS_MAX, cache_s)

    async def issue(
        self,
        tenant: str,
        subject: str,
        scopes: Iterable[str],
        expire_time: datetime | None = None,
    ) -> tuple[ApiKey, str]:
        """The new key and the text its owner sends; the text is never to be had again.

        Raises InvalidApiKeyRequest and UnknownScope.
        """
        now = datetime.now(UTC)
        _check_names(tenant, subject)
        _check_expiry(expire_time, now)
        key_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        key = ApiKey(key_id, tenant, subject, known_scopes(scopes), _hash(secret), now, expire_time)
        await self._store.insert(key)
        return key, f"{PREFIX}_{key_id}_{secret}"

    async def verify(self, text: str) -> ApiKey:
        """The key behind the text. Raises InvalidApiKey, ExpiredApiKey, RevokedApiKey."""
        prefix, _, rest = text.partition("_")
        key_id, _, secret = rest.partition("_")
        known = prefix == PREFIX and KEY_ID.fullmatch(key_id)
        key = await self._get(key_id) if known else None
        if key is None or not hmac.compare_digest(_hash(secret), key.secret_hash):
            raise InvalidApiKey
        if key.revoke_time is not None:
            raise RevokedApiKey(key.id)
        if key.expire_time is not None and key.expire_time <= datetime.now(UTC):
            raise ExpiredApiKey(key.id)
        return key

    async def list(self, tenant: str, after_id: str, limit: int) -> list[ApiKey]:
        """The tenant's keys in id order, revoked ones included. Raises InvalidPageToken."""
        if after_id and not KEY_ID.fullmatch(after_id):
            raise InvalidPageToken
        return await self._store.list(tenant, after_id, limit)

    async def revoke(self, tenant: str, key_id: str) -> ApiKey:
        """Ends a key; ending it again changes nothing. Raises ApiKeyNotFound."""
        key = await self._store.revoke(tenant, key_id) if KEY_ID.fullmatch(key_id) else None
        if key is None:
            raise ApiKeyNotFound(key_id)
        self._cache.pop(key_id, None)
        return key

    async def _get(self, key_id: str) -> ApiKey | None:
        if key := self._cache.get(key_id):
            return key
        key = await self._store.get(key_id)
        if key is not None:
            self._cache[key_id] = key
        return key


def known_scopes(scopes: Iterable[str]) -> frozenset[str]:
    """The scopes. Raises UnknownScope, also for the one no key may carry."""
    # Only the episode worker posts costs, and it signs its own tokens.
    grantable = sorted(set(Scope) - {Scope.LEDGER_WRITE})
    for scope in scopes:
        if scope not in grantable:
            raise UnknownScope(scope, grantable)
    return frozenset(scopes)


def check_grantable(granter: Identity, scopes: Iterable[str]) -> None:
    """A tenant's admin hands out the tenant's scopes. Raises ScopeNotGrantable."""
    for scope in known_scopes(scopes):
        if scope not in TENANT_SCOPES and not granter.may(Scope(scope)):
            raise ScopeNotGrantable(scope)


def _check_names(tenant: str, subject: str) -> None:
    for name, value in (("tenant", tenant), ("subject", subject)):
        if not 1 <= len(value.strip()) <= NAME_CHARACTERS_MAX or not value.isprintable():
            raise InvalidApiKeyRequest(
                f"{name} must have 1 to {NAME_CHARACTERS_MAX} printable characters", param=name
            )


def _check_expiry(expire_time: datetime | None, now: datetime) -> None:
    if expire_time is None:
        return
    if expire_time.tzinfo is None:
        raise InvalidApiKeyRequest("expire_time needs a time zone, like Z", param="expire_time")
    if expire_time <= now:
        raise InvalidApiKeyRequest("expire_time has passed already", param="expire_time")


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
