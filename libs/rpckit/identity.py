"""Who is calling: tenant, subject and scopes, carried by a short-lived internal JWT.

The gateway and the episode worker sign with Ed25519 keys of their own; every
service verifies. The tenant is read from here and from nowhere else.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import jwt
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from rpckit.errors import PermissionDenied, Unauthenticated

AUDIENCE = "podium-internal"
ALGORITHM = "EdDSA"
RENEW_BEFORE_S = 60.0
# Clocks of two nodes differ a little; a token must not come from the future for that.
CLOCK_SKEW_S = 5.0


class Scope(StrEnum):
    """What an identity may do."""

    PLATFORM_ADMIN = "platform:admin"
    TENANT_ADMIN = "tenant:admin"
    TOOLS_WRITE = "tools:write"
    EPISODES_RUN = "episodes:run"
    SPEND_READ = "spend:read"
    LEDGER_WRITE = "ledger:write"


# A tenant admin is no platform: shared tools, list prices and posting costs stay out of reach.
TENANT_SCOPES = frozenset(
    {Scope.TENANT_ADMIN, Scope.TOOLS_WRITE, Scope.EPISODES_RUN, Scope.SPEND_READ}
)


@dataclass(frozen=True)
class Identity:
    """An authenticated caller."""

    tenant: str
    subject: str
    scopes: frozenset[str]

    def may(self, scope: Scope) -> bool:
        """Whether the scopes allow it, directly or through an admin scope."""
        if Scope.PLATFORM_ADMIN in self.scopes or scope in self.scopes:
            return True
        return Scope.TENANT_ADMIN in self.scopes and scope in TENANT_SCOPES


_identity: ContextVar[Identity | None] = ContextVar("identity", default=None)
_token: ContextVar[str | None] = ContextVar("token", default=None)


def current_identity() -> Identity:
    """The caller of the request being served. Raises Unauthenticated outside of one."""
    identity = _identity.get()
    if identity is None:
        raise Unauthenticated("this call carries no identity")
    return identity


def require_scope(scope: Scope) -> Identity:
    """The caller, when it has the scope. Raises PermissionDenied."""
    identity = current_identity()
    if not identity.may(scope):
        raise PermissionDenied(
            f"{identity.subject} of tenant {identity.tenant} lacks the scope {scope.value}",
            scope=scope.value,
        )
    return identity


def current_token() -> str | None:
    """The token the request being served came with, to be forwarded."""
    return _token.get()


@contextmanager
def acting_as(identity: Identity, token: str | None = None) -> Iterator[None]:
    """Makes `identity` the caller of everything inside."""
    resets = _identity.set(identity), _token.set(token)
    try:
        yield
    finally:
        _identity.reset(resets[0])
        _token.reset(resets[1])


class TokenSigner:
    """Signs internal JWTs; a token is reused until it is about to expire."""

    def __init__(self, private_key_pem: str, key_id: str) -> None:
        self._key = load_pem_private_key(private_key_pem.encode(), password=None)
        self._key_id = key_id
        self._cache: dict[tuple[Identity, float], tuple[float, str]] = {}

    def sign(self, identity: Identity, lifetime_s: float = 300.0) -> str:
        """A JWT (RFC 7519) for the identity, valid for at most `lifetime_s` seconds."""
        now = time.time()
        expires_at, token = self._cache.get((identity, lifetime_s), (0.0, ""))
        if expires_at - now < RENEW_BEFORE_S:
            expires_at, token = now + lifetime_s, self._encode(identity, now, lifetime_s)
            self._forget_expired(now)
            self._cache[identity, lifetime_s] = (expires_at, token)
        return token

    def _encode(self, identity: Identity, now: float, lifetime_s: float) -> str:
        claims = {
            "aud": AUDIENCE,
            "iss": self._key_id,
            "sub": identity.subject,
            "tenant": identity.tenant,
            "scopes": sorted(identity.scopes),
            "iat": int(now),
            "exp": int(now + lifetime_s),
        }
        return jwt.encode(claims, self._key, ALGORITHM, headers={"kid": self._key_id})  # type: ignore[arg-type]

    def _forget_expired(self, now: float) -> None:
        self._cache = {who: entry for who, entry in self._cache.items() if entry[0] > now}


class TokenVerifier:
    """Verifies internal JWTs against the platform's public keys."""

    def __init__(self, public_keys: Mapping[str, str]) -> None:
        self._keys = {
            key_id: load_pem_public_key(pem.encode()) for key_id, pem in public_keys.items()
        }
        self._cache: dict[str, tuple[float, Identity]] = {}

    def verify(self, token: str) -> Identity:
        """The identity a token carries. Raises Unauthenticated."""
        expires_at, identity = self._cache.get(token, (0.0, None))
        if identity is not None and expires_at > time.time():
            return identity
        claims = self._decode(token)
        identity = Identity(claims["tenant"], claims["sub"], frozenset(claims["scopes"]))
        self._forget_expired()
        self._cache[token] = (float(claims["exp"]), identity)
        return identity

    def _decode(self, token: str) -> dict[str, Any]:
        try:
            key = self._keys[jwt.get_unverified_header(token)["kid"]]
            claims: dict[str, Any] = jwt.decode(
                token,
                key,  # type: ignore[arg-type]
                algorithms=[ALGORITHM],
                audience=AUDIENCE,
                leeway=CLOCK_SKEW_S,
                options={"require": ["exp", "sub", "tenant", "scopes"]},
            )
            return claims
        except (jwt.InvalidTokenError, KeyError) as error:
            raise Unauthenticated("the internal token is not valid") from error

    def _forget_expired(self) -> None:
        if len(self._cache) > 10_000:
            now = time.time()
            self._cache = {token: entry for token, entry in self._cache.items() if entry[0] > now}
