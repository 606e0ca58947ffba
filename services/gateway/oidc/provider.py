"""Requests to an OpenID Connect provider: its endpoints, signing keys and tokens.

OpenID Connect Discovery 1.0, section 4; JWKS: RFC 7517.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

import jwt

from gateway.errors import IdentityProviderUnavailable, InvalidToken, SignInFailed

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

TIMEOUT_S = 5.0
KEYS_KEPT_S = 3_600.0
# Tokens with made-up key ids must not turn into requests to the provider.
REFETCH_INTERVAL_S = 10.0
AUTH_METHODS = "token_endpoint_auth_methods_supported"


class IdentityProviderClient:
    """Caches what discovery names; keys are fetched again when they rotate."""

    def __init__(self, issuer: str) -> None:
        self._issuer = issuer
        self._client: httpx.AsyncClient | None = None
        self._discovered: dict[str, Any] = {}
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._fetching = asyncio.Lock()

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def endpoint(self, name: str) -> str:
        """The URL that discovery gives a name. Raises IdentityProviderUnavailable, SignInFailed."""
        if not self._discovered:
            async with self._fetching:
                await self._refetch()
        found = self._discovered.get(name)
        if not isinstance(found, str):
            raise SignInFailed(f"the identity provider {self._issuer} has no {name}")
        return found

    async def exchange(
        self, form: Mapping[str, str], client_id: str, secret: str
    ) -> dict[str, Any]:
        """The tokens of an authorization code; a public client's secret is "".

        Raises SignInFailed and IdentityProviderUnavailable.
        """
        from httpx import Auth, BasicAuth, HTTPError

        endpoint = await self.endpoint("token_endpoint")
        fields, auth = {**form, "client_id": client_id}, Auth()
        # RFC 6749, section 2.3.1: Basic, of which both parts are encoded as in a form.
        if secret and "client_secret_post" in self._discovered.get(AUTH_METHODS, ()):
            fields["client_secret"] = secret
        elif secret:
            auth = BasicAuth(quote_plus(client_id), quote_plus(secret))
        try:
            reply = await self._http().post(endpoint, data=fields, auth=auth)
            body = reply.json()
        except (HTTPError, ValueError) as error:
            raise IdentityProviderUnavailable(self._issuer) from error
        if reply.status_code >= 500:
            raise IdentityProviderUnavailable(self._issuer)
        if not reply.is_success or not isinstance(body, dict):
            reason = body.get("error") if isinstance(body, dict) else None
            log.warning("%s rejected a code: %.200s", self._issuer, reason)
            raise SignInFailed("the identity provider rejected the sign-in; try again")
        return body

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
        from httpx import HTTPError

        self._tried_at = time.monotonic()
        try:
            await self._fetch()
            self._fetched_at = self._tried_at
        except (HTTPError, jwt.PyJWTError, ValueError, KeyError, TypeError) as error:
            log.warning("keys of %s were not fetched: %s", self._issuer, type(error).__name__)
            # Keys that were good an hour ago are better than none.
            if not self._keys:
                raise IdentityProviderUnavailable(self._issuer) from error

    async def _fetch(self) -> None:
        http = self._http()
        where = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        discovered = (await http.get(where)).raise_for_status().json()
        if discovered["issuer"] != self._issuer:
            raise ValueError(f"{where} speaks for {discovered['issuer']}")
        document = (await http.get(discovered["jwks_uri"])).raise_for_status().json()
        keys = jwt.PyJWKSet.from_dict(document).keys
        self._keys = {key.key_id: key for key in keys if key.public_key_use in (None, "sig")}
        self._discovered = discovered

    def _http(self) -> "httpx.AsyncClient":
        from httpx import AsyncClient

        self._client = self._client or AsyncClient(timeout=TIMEOUT_S, follow_redirects=False)
        return self._client
