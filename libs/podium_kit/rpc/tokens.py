"""Internal tokens: short-lived JWTs that carry an identity between services (docs/adr/0007).

The gateway, the episode worker and the adapters sign with Ed25519 keys of their own; every
service verifies, and a key may be limited to the scopes its owner needs.
"""

import time
from collections.abc import Collection, Mapping
from typing import Any

import jwt
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from podium_kit.rpc.errors import Unauthenticated
from podium_kit.rpc.identity import Identity

AUDIENCE = "podium-internal"
ALGORITHM = "EdDSA"
RENEW_BEFORE_S = 60.0
# Clocks of two nodes differ a little; a token must not come from the future for that.
CLOCK_SKEW_S = 5.0


class TokenSigner:
    """Signs internal JWTs; a token is reused until it is about to expire.

    After a step of the clock back, tokens signed in the future would be rejected; none is reused.
    """

    def __init__(self, private_key_pem: str, key_id: str) -> None:
        self._key = load_pem_private_key(private_key_pem.encode(), password=None)
        self._key_id = key_id
        # When each was signed, by the wall clock.
        self._cache: dict[tuple[Identity, float], tuple[float, str]] = {}

    def sign(self, identity: Identity, lifetime_s: float = 300.0) -> str:
        now = time.time()
        signed_at, token = self._cache.get((identity, lifetime_s), (0.0, ""))
        if not signed_at <= now < signed_at + lifetime_s - RENEW_BEFORE_S:
            token = self._encode(identity, now, lifetime_s)
            self._forget_expired(now)
            self._cache[identity, lifetime_s] = (now, token)
        return token

    def _encode(self, identity: Identity, now: float, lifetime_s: float) -> str:
        claims = {
            "aud": AUDIENCE,
            "iss": self._key_id,
            "sub": identity.subject,
            "tenant": identity.tenant,
            "scopes": sorted(identity.scopes),
            "groups": sorted(identity.groups),
            "iat": int(now),
            "exp": int(now + lifetime_s),
        }
        return jwt.encode(claims, self._key, ALGORITHM, headers={"kid": self._key_id})  # type: ignore[arg-type]

    def _forget_expired(self, now: float) -> None:
        self._cache = {
            (who, lifetime_s): entry
            for (who, lifetime_s), entry in self._cache.items()
            if entry[0] <= now < entry[0] + lifetime_s
        }


class TokenVerifier:
    def __init__(
        self,
        public_keys: Mapping[str, str],
        scopes_of_key: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        """`public_keys` are PEM texts by key id. Whatever a token claims, its scopes are at
        most those of its key; a key that is not named has no such limit."""
        self._keys = {
            key_id: load_pem_public_key(pem.encode()) for key_id, pem in public_keys.items()
        }
        self._scopes_of_key = scopes_of_key or {}
        self._cache: dict[str, tuple[float, Identity]] = {}

    def verify(self, token: str) -> Identity:
        expires_at, identity = self._cache.get(token, (0.0, None))
        if identity is not None and expires_at > time.time():
            return identity
        claims = self._decode(token)
        groups = frozenset(claims.get("groups", ()))
        identity = Identity(claims["tenant"], claims["sub"], self._scopes(claims), groups)
        self._forget_expired()
        self._cache[token] = (float(claims["exp"]), identity)
        return identity

    def _scopes(self, claims: Mapping[str, Any]) -> frozenset[str]:
        limit = self._scopes_of_key.get(claims["kid"])
        return frozenset(claims["scopes"]) & frozenset(claims["scopes"] if limit is None else limit)

    def _decode(self, token: str) -> dict[str, Any]:
        try:
            key_id = jwt.get_unverified_header(token)["kid"]
            claims: dict[str, Any] = jwt.decode(
                token,
                self._keys[key_id],  # type: ignore[arg-type]
                algorithms=[ALGORITHM],
                audience=AUDIENCE,
                leeway=CLOCK_SKEW_S,
                options={"require": ["exp", "sub", "tenant", "scopes"]},
            )
            return {**claims, "kid": key_id}
        except (jwt.InvalidTokenError, KeyError) as error:
            raise Unauthenticated("the internal token is not valid") from error

    def _forget_expired(self) -> None:
        if len(self._cache) > 10_000:
            now = time.time()
            self._cache = {token: entry for token, entry in self._cache.items() if entry[0] > now}
