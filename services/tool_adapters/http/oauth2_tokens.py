"""Access tokens of the OAuth 2.0 client credentials grant (RFC 6749, section 4.4), kept."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc6749 import OAuth2Token
from cachetools import LRUCache

from podium_kit.failures import FailureKind
from tool_adapters.adapter import CallFailed, reply_json
from tool_adapters.http.client import HttpClient, HttpReply, HttpRequest, status_failure
from tool_adapters.models import OAuth2Auth, ToolDefinition
from tool_adapters.secret_store import SecretStore, holder
from tool_adapters.used_secrets import used_secrets

CLIENTS_KEPT = 10_000
# A token must live as long as the request that carries it takes to arrive.
RENEW_BEFORE_S = 30


@dataclass
class _Client:
    """One client's token; the lock lets calls at once share one request for it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    token: OAuth2Token | None = None


class OAuth2Tokens:
    def __init__(self, client: HttpClient, secrets: SecretStore) -> None:
        self._client = client
        self._secrets = secrets
        self._clients: LRUCache[tuple[str, OAuth2Auth], _Client] = LRUCache(CLIENTS_KEPT)

    async def token(self, auth: OAuth2Auth, owner: str, tool: ToolDefinition) -> str:
        client = self._clients.setdefault((holder(owner, auth.secret), auth), _Client())
        async with client.lock:
            if client.token is None or client.token.is_expired(RENEW_BEFORE_S):
                client.token = await self._get(auth, owner, tool)
            token = str(client.token["access_token"])
        used_secrets().add(token)
        return token

    def forget(self, auth: OAuth2Auth, owner: str, token: str) -> None:
        """Drops a token that was rejected, unless another has taken its place."""
        client = self._clients.get((holder(owner, auth.secret), auth))
        if client and client.token and client.token["access_token"] == token:
            client.token = None

    async def _get(self, auth: OAuth2Auth, owner: str, tool: ToolDefinition) -> OAuth2Token:
        host = urlsplit(auth.token_url).hostname or ""
        secret = await self._secrets.value(owner, auth.secret, host)
        _, headers, _ = ClientAuth(auth.client_id, secret).prepare("POST", auth.token_url, {}, "")
        used_secrets().add(headers["Authorization"].removeprefix("Basic "))
        form = {"grant_type": "client_credentials"}
        if auth.scopes:
            form["scope"] = " ".join(auth.scopes)
        # To the endpoint the same addresses are open as to the tool.
        request = HttpRequest(
            "POST",
            auth.token_url,
            headers,
            form=tuple(form.items()),
            credential=(holder(owner, auth.secret), auth.secret),
        )
        reply = await self._client.send(request, tool)
        return _token_of(reply)


def _token_of(reply: HttpReply) -> OAuth2Token:
    """The token in a reply (RFC 6749, section 5.1); the reply is never shown, for it holds one."""
    if failure := status_failure(reply, words=_error_of(reply)):
        raise CallFailed(failure.kind, f"no access token: {failure.message}", failure.retryable)
    with suppress(ValueError, TypeError, KeyError, AttributeError, OverflowError):
        token = OAuth2Token(reply_json(reply.body))
        if token["token_type"].lower() == "bearer" and token["access_token"]:
            return token
    message = "the token endpoint answered with something else than a bearer token"
    raise CallFailed(FailureKind.MALFORMED_OUTPUT, message)


def _error_of(reply: HttpReply) -> str:
    """The error's code, for example "invalid_client"; nothing else of the reply is repeated."""
    try:
        return str(reply_json(reply.body)["error"])
    except (CallFailed, ValueError, TypeError, KeyError):
        return "without saying why"
