"""Signing in at an identity provider: the authorization code flow with PKCE, state and nonce.

OpenID Connect Core 1.0, section 3.1; RFC 7636; RFC 9207 for the issuer in the answer.
"""

import asyncio
import base64
import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from urllib.parse import urlencode

from gateway.errors import SignInFailed
from gateway.oidc.issuers import OidcIssuer
from gateway.oidc.verifier import OidcVerifier
from podium_kit.rpc.identity import Identity

# Anyone may ask for an exchange, and each is a request to the provider.
EXCHANGES_AT_ONCE = 8
REASON_CHARACTERS_MAX = 200


@dataclass(frozen=True)
class PendingSignIn:
    """The state in the browser until the provider sends the person back; no part has a dot."""

    client: str
    state: str
    nonce: str
    verifier: str

    @classmethod
    def begin(cls, client: str) -> "PendingSignIn":
        return cls(client, *(secrets.token_urlsafe(32) for _ in range(3)))

    @classmethod
    def from_cookie(cls, text: str) -> "PendingSignIn":
        parts = text.split(".")
        if len(parts) != 4 or not all(parts):
            raise SignInFailed("the sign-in took too long, or began in another browser; try again")
        return cls(*parts)

    def to_cookie(self) -> str:
        return ".".join(astuple(self))

    @property
    def challenge(self) -> str:
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class OidcSignIn:
    """Signs people in at the issuers that have a client id, each named by its place among them."""

    def __init__(self, issuers: Iterable[OidcIssuer], verifier: OidcVerifier) -> None:
        clients = [issuer for issuer in issuers if issuer.client_id]
        self._clients = {str(place): issuer for place, issuer in enumerate(clients)}
        self._verifier = verifier
        self._exchanges = asyncio.Semaphore(EXCHANGES_AT_ONCE)

    @property
    def names(self) -> dict[str, str]:
        """The name that people read, by client."""
        return {client: issuer.shown_name for client, issuer in self._clients.items()}

    async def authorization_url(self, pending: PendingSignIn, redirect_uri: str) -> str:
        """Returns where the browser goes. Raises SignInFailed and IdentityProviderUnavailable."""
        issuer = self._client(pending.client)
        endpoint = await self._verifier.provider(issuer.issuer).endpoint("authorization_endpoint")
        query = {
            "response_type": "code",
            "client_id": issuer.client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(issuer.sign_in_scopes),
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": pending.challenge,
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    async def finish(
        self, pending: PendingSignIn, answer: Mapping[str, str], redirect_uri: str
    ) -> tuple[Identity, str]:
        """The person, and the issuer. Raises SignInFailed, InvalidToken, NoRole and
        IdentityProviderUnavailable."""
        issuer = self._client(pending.client)
        if not secrets.compare_digest(answer.get("state", "").encode(), pending.state.encode()):
            raise SignInFailed("the answer belongs to another sign-in; try again")
        if answer.get("iss", issuer.issuer) != issuer.issuer:
            raise SignInFailed("the answer comes from another identity provider; try again")
        if reason := answer.get("error_description") or answer.get("error"):
            words = reason[:REASON_CHARACTERS_MAX]
            raise SignInFailed(f"{issuer.shown_name} did not sign you in: {words}")
        form = {
            "grant_type": "authorization_code",
            "code": answer.get("code", ""),
            "redirect_uri": redirect_uri,
            "code_verifier": pending.verifier,
        }
        secret_file = issuer.client_secret_file
        secret = "" if secret_file is None else secret_file.read_text().strip()
        provider = self._verifier.provider(issuer.issuer)
        async with self._exchanges:
            tokens = await provider.exchange(form, issuer.client_id, secret)
        id_token = tokens.get("id_token")
        if not isinstance(id_token, str):
            raise SignInFailed(
                f"{issuer.shown_name} gave no ID token; its client needs the scope openid"
            )
        return await self._verifier.verify_id_token(id_token, issuer, pending.nonce), issuer.issuer

    def _client(self, name: str) -> OidcIssuer:
        if name not in self._clients:
            raise SignInFailed("the gateway has no such identity provider; open the page again")
        return self._clients[name]
