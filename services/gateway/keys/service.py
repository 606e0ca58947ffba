"""API keys: `pod_<id>_<secret>`, the secret being 256 random bits.

Only the SHA-256 of the secret is stored. A random secret needs no slow hash: there is
no dictionary to try, and every request would pay for the slowness.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

from cachetools import TTLCache

from gateway.audit.service import AuditLog
from gateway.errors import (
    ApiKeyEnded,
    ApiKeyNotFound,
    ExpiredApiKey,
    InvalidApiKey,
    InvalidApiKeyRequest,
    RevokedApiKey,
    ScopeNotGrantable,
    UnknownScope,
)
from gateway.keys.models import ApiKey, KeyRequest
from podium_kit.rpc.errors import Unavailable
from podium_kit.rpc.identity import SERVICE_SCOPES, Identity, Role, Scope, scopes_of
from podium_kit.rpc.pages import InvalidPageToken

PREFIX = "pod"
CACHED_KEYS_MAX = 10_000
NAME_CHARACTERS_MAX = 128
# All of them travel with every call.
TEAMS_MAX = 32
LAST_MOMENT = datetime.max.replace(tzinfo=UTC)
KEY_ID = re.compile(r"[0-9a-f]{16}")


class ApiKeyStore(Protocol):
    async def insert(self, key: ApiKey) -> None: ...
    async def get(self, key_id: str) -> ApiKey | None: ...
    async def list(self, tenant: str, after_id: str, limit: int) -> list[ApiKey]: ...
    async def revoke(self, tenant: str, key_id: str) -> ApiKey | None: ...
    async def replace(self, old: ApiKey, new: ApiKey) -> None: ...


class ApiKeys:
    """Issues, verifies, rotates and revokes keys; a verified key is remembered a few seconds."""

    def __init__(self, store: ApiKeyStore, log: AuditLog, cache_s: float) -> None:
        self._store = store
        self._log = log
        self._cache: TTLCache[str, ApiKey] = TTLCache(CACHED_KEYS_MAX, cache_s)

    async def issue(self, wanted: KeyRequest) -> tuple[ApiKey, str]:
        """The new key and the text its owner sends; the text is never to be had again.

        Raises InvalidApiKeyRequest and UnknownScope.
        """
        key, text = new_key(wanted)
        async with self._log.change("CreateApiKey", key.id, key.shown()) as change:
            await self._store.insert(key)
            change.after = key.shown()
        return key, text

    async def rotate(
        self, admin: Identity, key_id: str, overlap: timedelta
    ) -> tuple[ApiKey, ApiKey, str]:
        """The old key, which works until the overlap is over, the new one, and its text.

        The new key may what the old one may, is bound by what bound it, and lives as long as the
        old one was made to.
        Raises ApiKeyNotFound, ScopeNotGrantable, ApiKeyEnded, InvalidApiKeyRequest.
        """
        if overlap < timedelta(0):
            raise InvalidApiKeyRequest("overlap_s must not be negative", param="overlap_s")
        old, now = await self._administered(admin, key_id), datetime.now(UTC)
        if old.revoke_time or (old.expire_time and old.expire_time <= now) or old.successor_id:
            raise ApiKeyEnded(key_id)
        new, text = new_key(
            KeyRequest(
                old.tenant,
                old.subject,
                old.scopes,
                old.roles,
                old.teams,
                old.expire_time and _after(now, old.expire_time - old.create_time),
                old.origin_id or old.id,
                old.agents,
                old.creators | creators_by(admin),
            )
        )
        ends = min(now + overlap, old.expire_time or now + overlap)
        ending = replace(old, expire_time=ends, successor_id=new.id)
        requested = {"id": key_id, "overlap_s": overlap.total_seconds()}
        async with self._log.change("RotateApiKey", key_id, requested, old.shown()) as change:
            await self._store.replace(ending, new)
            change.after = {"old": ending.shown(), "new": new.shown()}
        self._cache.pop(key_id, None)
        return ending, new, text

    async def verify(self, text: str) -> ApiKey:
        prefix, _, rest = text.partition("_")
        key_id, _, secret = rest.partition("_")
        known = prefix == PREFIX and KEY_ID.fullmatch(key_id)
        key = await self._get(key_id) if known else None
        if key is None or not hmac.compare_digest(_hash(secret), key.secret_hash):
            raise InvalidApiKey(key.claimant if key else None)
        return _unended(key)

    async def unended(self, key_id: str) -> ApiKey:
        """The key of an id. Raises InvalidApiKey, RevokedApiKey and ExpiredApiKey."""
        key = await self._get(key_id)
        if key is None:
            raise InvalidApiKey
        return _unended(key)

    async def list(self, tenant: str, after_id: str, limit: int) -> list[ApiKey]:
        """The tenant's keys in id order, revoked ones included. Raises InvalidPageToken."""
        if after_id and not KEY_ID.fullmatch(after_id):
            raise InvalidPageToken
        return await self._store.list(tenant, after_id, limit)

    async def revoke(self, admin: Identity, key_id: str) -> ApiKey:
        """Ends a key; ending it again changes nothing.

        Raises ApiKeyNotFound, ScopeNotGrantable.
        """
        before = (await self._administered(admin, key_id)).shown()
        async with self._log.change("RevokeApiKey", key_id, {"id": key_id}, before) as change:
            key = await self._store.revoke(admin.tenant, key_id)
            if key is None:
                raise ApiKeyNotFound(key_id)
            change.after = key.shown()
        self._cache.pop(key_id, None)
        return key

    async def _administered(self, admin: Identity, key_id: str) -> ApiKey:
        """A key of the admin's tenant that may do nothing the admin could not grant."""
        key = await self._store.get(key_id) if KEY_ID.fullmatch(key_id) else None
        if key is None or key.tenant != admin.tenant:
            raise ApiKeyNotFound(key_id)
        require_within(admin, key.identity().scopes)
        return key

    async def _get(self, key_id: str) -> ApiKey | None:
        if key := self._cache.get(key_id):
            return key
        key = await self._store.get(key_id)
        if key is not None:
            self._cache[key_id] = key
        return key


def _unended(key: ApiKey) -> ApiKey:
    if key.revoke_time is not None:
        raise RevokedApiKey(key.id, key.claimant)
    if key.expire_time is not None and key.expire_time <= datetime.now(UTC):
        raise ExpiredApiKey(key.id, key.claimant)
    return key


def new_key(wanted: KeyRequest) -> tuple[ApiKey, str]:
    now = datetime.now(UTC)
    _check_names(("tenant", wanted.tenant), ("subject", wanted.subject))
    for param, names in (("teams", wanted.teams), ("agents", wanted.agents)):
        _check_names(*((param, name) for name in names))
        if len(names) > TEAMS_MAX:
            raise InvalidApiKeyRequest(f"give at most {TEAMS_MAX} {param}", param=param)
    _check_expiry(wanted.expire_time, now)
    if not wanted.scopes and not wanted.roles:
        raise InvalidApiKeyRequest("give at least 1 scope or role", param="scopes")
    key_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    key = ApiKey(
        id=key_id,
        tenant=wanted.tenant,
        subject=wanted.subject,
        scopes=known_scopes(wanted.scopes),
        secret_hash=_hash(secret),
        create_time=now,
        expire_time=wanted.expire_time,
        roles=wanted.roles,
        teams=wanted.teams,
        origin_id=wanted.origin_id or key_id,
        agents=wanted.agents,
        creators=wanted.creators,
    )
    return key, f"{PREFIX}_{key_id}_{secret}"


def creators_by(admin: Identity) -> frozenset[str]:
    """The people who see the text of a key that an identity creates, but for an operator."""
    return frozenset() if admin.may(Scope.PLATFORM_ADMIN) else admin.people


def known_scopes(scopes: Iterable[str]) -> frozenset[str]:
    """The scopes. Raises UnknownScope, also for those no key may carry."""
    grantable = sorted(set(Scope) - SERVICE_SCOPES)
    for scope in scopes:
        if scope not in grantable:
            raise UnknownScope(scope, grantable)
    return frozenset(scopes)


def check_grantable(granter: Identity, scopes: Iterable[str], roles: Iterable[Role]) -> None:
    require_within(granter, known_scopes(scopes) | scopes_of(roles))


def require_within(granter: Identity, scopes: Iterable[str]) -> None:
    """No one grants, renews or ends what they may not do themselves. Raises ScopeNotGrantable."""
    # A key may carry the name of a scope that no longer exists: it allows nothing.
    for scope in sorted(frozenset(scopes) & frozenset(Scope)):
        if not granter.may(Scope(scope)):
            raise ScopeNotGrantable(scope)


def _check_names(*names: tuple[str, str]) -> None:
    for name, value in names:
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


def _after(now: datetime, lifetime: timedelta) -> datetime:
    """Returns the expiry, capped at the last moment there is: some write "never" as a huge
    lifetime.
    """
    return now + min(lifetime, LAST_MOMENT - now)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


WRITE_INTERVAL_S = 10.0


class UseStore(Protocol):
    async def note_uses(self, uses: Mapping[str, datetime]) -> None: ...


class KeyUses:
    """One write per key and interval, however many requests it made."""

    def __init__(self, store: UseStore) -> None:
        self._store = store
        self._uses: dict[str, datetime] = {}

    def note(self, key_id: str) -> None:
        self._uses[key_id] = datetime.now(UTC)

    async def write(self) -> None:
        """Writes what was collected; to be called every WRITE_INTERVAL_S."""
        if self._uses:
            uses, self._uses = self._uses, {}
            try:
                await self._store.note_uses(uses)
            except Unavailable:
                self._uses = uses | self._uses
                raise
