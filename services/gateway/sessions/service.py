"""Sessions of the console, and which requests their cookie admits.

A cookie travels with what any page has the browser send, so it counts only where the browser
states that a page of this origin asked, and for changes only beside a token which other pages
cannot read.
"""

import hmac
import secrets
from datetime import UTC, datetime
from typing import Protocol

from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from gateway.audit.service import AuditLog
from gateway.errors import CsrfTokenMissing, ForeignRequest, JsonExpected, SessionEnded
from gateway.keys.service import ApiKeys
from gateway.origin import admitted_by
from gateway.sessions.models import (
    COOKIE,
    LIFETIME,
    TOUCH_INTERVAL,
    ConsoleSession,
    csrf_token,
    digest_of,
)
from podium_kit.rpc.identity import Identity, acting_as

SAFE_METHODS = frozenset({"GET", "HEAD"})


class SessionStore(Protocol):
    async def insert(self, session: ConsoleSession) -> None: ...
    async def get(self, digest: bytes) -> ConsoleSession | None: ...
    async def touch(self, digest: bytes, used: datetime) -> None: ...
    async def delete(self, digest: bytes) -> None: ...
    async def forget(self, now: datetime) -> None: ...


class ConsoleSessions:
    def __init__(self, store: SessionStore, keys: ApiKeys, log: AuditLog) -> None:
        self._store = store
        self._keys = keys
        self._log = log

    async def begin(
        self, identity: Identity, credential: str, key_id: str | None
    ) -> tuple[ConsoleSession, str]:
        """Returns the new session and the secret of its cookie."""
        secret, now = secrets.token_urlsafe(32), datetime.now(UTC)
        session = ConsoleSession(
            digest_of(secret), identity, credential, key_id, now, now, now + LIFETIME
        )
        with acting_as(identity), admitted_by(credential):
            async with self._log.change("SignIn", _name(session), {}):
                await self._store.insert(session)
        return session, secret

    async def admit(self, method: str, headers: Headers) -> tuple[ConsoleSession, Identity]:
        """The session of a request's cookie, and who sends it.

        Raises ForeignRequest, CsrfTokenMissing, JsonExpected and SessionEnded; RevokedApiKey and
        ExpiredApiKey for the key that signed in.
        """
        secret = secret_of(headers)
        if headers.get("sec-fetch-site") != "same-origin":
            raise ForeignRequest
        if method not in SAFE_METHODS:
            _require_intended(headers, secret)
        session, now = await self._store.get(digest_of(secret)), datetime.now(UTC)
        if session is None or session.is_over(now):
            raise SessionEnded
        identity = session.identity
        if session.key_id is not None:
            identity = (await self._keys.unended(session.key_id)).identity()
        if now - session.last_used_time >= TOUCH_INTERVAL:
            await self._store.touch(session.digest, now)
        return session, identity

    async def end(self, session: ConsoleSession) -> None:
        async with self._log.change("SignOut", _name(session), {}):
            await self._store.delete(session.digest)

    async def forget(self) -> None:
        """Deletes sessions that are over."""
        await self._store.forget(datetime.now(UTC))


def secret_of(headers: Headers) -> str:
    """Returns the secret of the request's cookie; "" without one."""
    return cookie_parser(headers.get("cookie", "")).get(COOKIE, "")


def _require_intended(headers: Headers, secret: str) -> None:
    given = headers.get("x-podium-csrf", "")
    if not hmac.compare_digest(given.encode(), csrf_token(secret).encode()):
        raise CsrfTokenMissing
    # A form of any page can send the other types.
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if has_body and media != "application/json":
        raise JsonExpected


def _name(session: ConsoleSession) -> str:
    return session.digest.hex()[:16]
