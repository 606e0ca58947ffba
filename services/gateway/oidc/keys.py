"""Signing keys of an OpenID Connect provider: discovered, cached, fetched again when they rotate.

OpenID Connect Discovery 1.0, section 4; JWKS: RFC 7517.
"""

import asyncio
import logging
import time
from typing import TYPE_CHECKING

import jwt

from gateway.errors import IdentityProviderUnavailable, InvalidToken

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

TIMEOUT_S = 5.0
KEYS_KEPT_S = 3_600.0
# Tokens with made-up key ids must not turn into requests to the provider.
REFETCH_INTERVAL_S = 10.0


class ProviderKeys:
    def __init__(self, issuer: str) -> None:
        self._issuer = issuer
        self._http: httpx.AsyncClient | None = None
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._fetching = asyncio.Lock()

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()

    async def key(self, key_id: str | None) -> jwt.PyJWK:
        if not self._known(key_id):
            async with self._fetching:
                if not self._known(key_id):
                    await self._refetch()
        if found := self._keys.get(key_id):
            return found
        # A provider with a single key may leave its id out.
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        raise InvalidToken(f"the token is signed with key {key_id!r}, which {self._issuer} lacks")

    def _known(self, key_id: str | None) -> bool:
        fresh = time.monotonic() - self._fetched_at < KEYS_KEPT_S
        return fresh and (key_id in self._keys or key_id is None)

    async def _refetch(self) -> None:
        if time.monotonic() - self._tried_at < REFETCH_INTERVAL_S:
            if not self._keys:
                raise IdentityProviderUnavailable(self._issuer)
            return
        from httpx import AsyncClient, HTTPError

        self._tried_at = time.monotonic()
        self._http = self._http or AsyncClient(timeout=TIMEOUT_S, follow_redirects=False)
        try:
            self._keys = await self._fetch(self._http)
            self._fetched_at = self._tried_at
        except (HTTPError, jwt.PyJWTError, ValueError, KeyError, TypeError) as error:
            log.warning("keys of %s were not fetched: %s", self._issuer, type(error).__name__)
            # Keys that were good an hour ago are better than none.
            if not self._keys:
                raise IdentityProviderUnavailable(self._issuer) from error

    async def _fetch(self, http: "httpx.AsyncClient") -> dict[str | None, jwt.PyJWK]:
        where = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        discovered = (await http.get(where)).raise_for_status().json()
        if discovered["issuer"] != self._issuer:
            raise ValueError(f"{where} speaks for {discovered['issuer']}")
        document = (await http.get(discovered["jwks_uri"])).raise_for_status().json()
        keys = jwt.PyJWKSet.from_dict(document).keys
        return {key.key_id: key for key in keys if key.public_key_use in (None, "sig")}
