"""The document of RFC 9728, which names the issuers of tokens to MCP clients."""

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from starlette.datastructures import URL, Headers
from starlette.requests import Request
from starlette.types import Scope

from gateway.oidc.issuers import OidcIssuer

WELL_KNOWN = "/.well-known/oauth-protected-resource"
LOCALHOST = "localhost"
REALM = 'Bearer realm="podium"'


@dataclass(frozen=True)
class ProtectedResource:
    """A path of the platform that tokens are issued for, and the platform as a whole.

    `public_url` is how clients reach it; "" means by the address that a request arrived at.
    """

    issuers: tuple[OidcIssuer, ...]
    public_url: str
    path: str

    def router(self) -> APIRouter:
        """Open, as the RFC has it; where no one signs in there is nothing to say."""
        router = APIRouter(include_in_schema=False)
        if self.issuers:
            router.add_api_route(WELL_KNOWN, self._whole)
            router.add_api_route(f"{WELL_KNOWN}{self.path}", self._part)
        return router

    async def _whole(self, request: Request) -> dict[str, Any]:
        return self._document(f"{self.base_url(request.scope)}/")

    async def _part(self, request: Request) -> dict[str, Any]:
        return self._document(f"{self.base_url(request.scope)}{self.path}")

    def _document(self, resource: str) -> dict[str, Any]:
        return {
            "resource": resource,
            "resource_name": "Podium",
            "authorization_servers": [issuer.issuer for issuer in self.issuers],
            "bearer_methods_supported": ["header"],
        }

    def challenge(self, scope: Scope) -> str:
        """WWW-Authenticate of a 401: how to authenticate, and whether a token was no good."""
        challenge = REALM
        if "authorization" in Headers(scope=scope):
            challenge += ', error="invalid_token"'
        if self.issuers:
            part = self.path if scope["path"] == self.path else ""
            challenge += f', resource_metadata="{self.base_url(scope)}{WELL_KNOWN}{part}"'
        return challenge

    def base_url(self, scope: Scope) -> str:
        """Returns the clients' URL of the platform, without a slash at the end."""
        if self.public_url:
            return self.public_url.rstrip("/")
        return _address(scope)


def _address(scope: Scope) -> str:
    """The address at which the connection arrived, as the request names this machine itself.

    Any other name in a Host header may be an attacker's, to whom clients would send their keys.
    """
    server = scope.get("server")
    if server is None or server[1] is None:
        return ""
    address, port = str(server[0]), server[1]
    named = URL(scope=scope)
    try:
        if named.hostname in {LOCALHOST, address}:
            address, port = str(named.hostname), named.port
    except ValueError:
        # Its port is none.
        pass
    host = f"[{address}]" if ":" in address else address
    return f"{scope['scheme']}://{host}" + (f":{port}" if port else "")
