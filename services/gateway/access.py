from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.audit.attempts import RejectedAttempts
from gateway.audit.models import Claimant
from gateway.errors import CredentialRejected, MissingApiKey, WrongTenant
from gateway.http.error_responses import error_response
from gateway.http.request_body import is_guarded
from gateway.keys.service import PREFIX, ApiKeys, KeyUses
from gateway.oidc.protected_resource import ProtectedResource
from gateway.oidc.verifier import OidcVerifier
from gateway.origin import API_KEY, admitted_by, current_origin, noting_rejection
from gateway.sessions.models import COOKIE
from gateway.sessions.service import ConsoleSessions, secret_of
from podium_kit.rpc.errors import DomainError, Unauthenticated
from podium_kit.rpc.identity import Identity, acting_as


class Doorkeeper:
    """Turns the credential of a request into an identity."""

    def __init__(
        self, keys: ApiKeys, uses: KeyUses, oidc: OidcVerifier, sessions: ConsoleSessions
    ) -> None:
        self._keys = keys
        self._uses = uses
        self._oidc = oidc
        self._sessions = sessions

    async def admit(self, scope: Scope) -> tuple[Identity, str]:
        """The caller, and the credential as the audit log names it.

        Raises Unauthenticated and WrongTenant errors that say what to do.
        """
        headers = Headers(scope=scope)
        if secret_of(headers) and "authorization" not in headers and "x-api-key" not in headers:
            session, identity = await self._sessions.admit(scope["method"], headers)
            scope[COOKIE] = session
            credential = session.credential
        else:
            identity, credential = await self._known(bearer(headers))
        expected = headers.get("x-podium-tenant", identity.tenant)
        if expected != identity.tenant:
            raise WrongTenant(Claimant(identity.tenant, identity.subject, credential), expected)
        return identity, credential

    async def _known(self, text: str) -> tuple[Identity, str]:
        # A JWT has three parts; an API key has a prefix and no dots.
        if not text.startswith(f"{PREFIX}_") and text.count(".") == 2:
            identity, issuer = await self._oidc.verify(text)
            return identity, f"oidc {issuer}"
        key = await self._keys.verify(text)
        self._uses.note(key.id)
        return key.identity(), f"{API_KEY}{key.id}"


class AccessMiddleware:
    """Plain ASGI, so that the identity is set for everything inside the request."""

    def __init__(
        self,
        app: ASGIApp,
        doorkeeper: Doorkeeper,
        protected: ProtectedResource,
        attempts: RejectedAttempts,
    ) -> None:
        self._app = app
        self._attempts = attempts
        self._doorkeeper = doorkeeper
        self._protected = protected

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or answers 401 or 403 in OpenAI's error shape."""
        if not is_guarded(scope):
            await self._app(scope, receive, send)
            return
        try:
            identity, credential = await self._doorkeeper.admit(scope)
        except DomainError as error:
            if isinstance(error, CredentialRejected) and error.claimant:
                self._note(error.claimant, error.reason, scope)
            response = error_response(error)
            if isinstance(error, Unauthenticated):
                response.headers["www-authenticate"] = self._protected.challenge(scope)
            await response(scope, receive, send)
            return
        with acting_as(identity), admitted_by(credential), noting_rejection() as rejection:
            await self._app(scope, receive, send)
        if rejection.reason and not rejection.audited:
            who = Claimant(identity.tenant, identity.subject, credential)
            self._note(who, rejection.reason, scope)

    def _note(self, who: Claimant, reason: str, scope: Scope) -> None:
        request = f"{scope['method']} {scope['path']}"
        self._attempts.note(who, reason, request, current_origin().request_id)


def bearer(headers: Headers) -> str:
    scheme, _, credential = headers.get("authorization", "").partition(" ")
    if not scheme:
        # Anthropic's clients send keys in a header of their own.
        scheme, credential = "bearer", headers.get("x-api-key", "")
    if scheme.lower() != "bearer" or not credential.strip():
        raise MissingApiKey
    return credential.strip()
