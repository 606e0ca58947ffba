import base64
from dataclasses import replace
from typing import assert_never
from urllib.parse import parse_qsl, urlencode, urlsplit

from podium_kit.failures import FailureKind
from tool_adapters.adapter import CallFailed
from tool_adapters.http.client import HttpRequest
from tool_adapters.http.oauth2_tokens import OAuth2Tokens
from tool_adapters.models import (
    BasicAuth,
    HeaderAuth,
    HttpAuth,
    OAuth2Auth,
    QueryAuth,
    ToolDefinition,
)
from tool_adapters.secret_store import SecretStore, for_header, holder, is_users
from tool_adapters.used_secrets import used_secrets

COOKIE = "Cookie"


class HttpAuthenticator:
    """Puts credentials into requests; `owner` is the owner of the secrets."""

    def __init__(self, secrets: SecretStore, tokens: OAuth2Tokens) -> None:
        self._secrets = secrets
        self._tokens = tokens

    async def signed(
        self, request: HttpRequest, auth: HttpAuth, owner: str, tool: ToolDefinition
    ) -> HttpRequest:
        """Raises CallFailed."""
        credential = (*request.credential, holder(owner, auth.secret), auth.secret)
        request = replace(request, credential=credential)
        match auth:
            case HeaderAuth():
                value = await self._secrets.value(owner, auth.secret, _host(request.url))
                value = for_header(auth.secret, value)
                return _with_header(request, auth.header, auth.prefix + value)
            case BasicAuth():
                password = await self._secrets.value(owner, auth.secret, _host(request.url))
                pair = f"{auth.username}:{password}"
                encoded = base64.b64encode(pair.encode()).decode()
                used_secrets().add(encoded)
                return _with_header(request, "Authorization", f"Basic {encoded}")
            case QueryAuth():
                value = await self._secrets.value(owner, auth.secret, _host(request.url))
                return _with_parameter(request, auth.parameter, value)
            case OAuth2Auth():
                if is_users(auth.secret):
                    # A token is as good as the secret: it goes where the user allowed.
                    await self._secrets.value(owner, auth.secret, _host(request.url))
                token = await self._tokens.token(auth, owner, tool)
                return _with_header(request, "Authorization", f"Bearer {token}")
        assert_never(auth)

    def renew(self, auth: HttpAuth | None, owner: str, rejected: HttpRequest) -> bool:
        """Returns whether a rejected request may be sent once more, with another credential."""
        if not isinstance(auth, OAuth2Auth):
            return False
        self._tokens.forget(auth, owner, rejected.headers["Authorization"].removeprefix("Bearer "))
        return True


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _with_header(request: HttpRequest, name: str, value: str) -> HttpRequest:
    """Replaces a header, however it is spelled; a cookie is added to the others."""
    if name.lower() == COOKIE.lower() and (given := request.headers.get(COOKIE)):
        own = value.partition("=")[0]
        if own in {cookie.partition("=")[0].strip() for cookie in given.split(";")}:
            raise _own_credential(own)
        value = f"{given}; {value}"
    others = {
        other: text for other, text in request.headers.items() if other.lower() != name.lower()
    }
    return replace(request, headers={**others, name: value})


def _with_parameter(request: HttpRequest, name: str, value: str) -> HttpRequest:
    query = urlsplit(request.url).query
    if any(given == name for given, _ in parse_qsl(query, keep_blank_values=True)):
        raise _own_credential(name)
    separator = "&" if query else "?"
    return replace(request, url=f"{request.url}{separator}{urlencode({name: value})}")


def _own_credential(name: str) -> CallFailed:
    """Chooses between two counts; the server decides, because the caller might."""
    message = f"{name} is the API's own credential; leave it out"
    return CallFailed(FailureKind.INVALID_ARGUMENTS, message)
