"""/v1/session: who is calling, and signing in to the console and out of it."""

from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from gateway.errors import KeyNeededToSignIn
from gateway.oidc.protected_resource import ProtectedResource
from gateway.oidc.sign_in import OidcSignIn, PendingSignIn
from gateway.origin import API_KEY, current_origin
from gateway.sessions.models import COOKIE, LIFETIME, ConsoleSession, csrf_token
from gateway.sessions.operations import allowed_operations
from gateway.sessions.service import ConsoleSessions, secret_of
from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.identity import Identity, Scope, current_identity

CONSOLE = "/console"
SIGNED_IN = f"{CONSOLE}/signed-in"
PENDING_COOKIE = "__Host-podium-sign-in"
PENDING_S = 600


class SessionResource(BaseModel):
    """The caller, what it may do, and its sign-in to the console."""

    tenant: str
    subject: str
    credential: str = Field(description="with what: an API key's id, an OIDC issuer")
    scopes: list[str] = Field(description="those of roles and admins' scopes included")
    roles: list[str]
    teams: list[str]
    agents: list[str]
    operations: list[str] = Field(description="operation ids of /openapi.json that these allow")
    create_time: datetime | None = Field(description="of the sign-in; null for a key or token")
    expire_time: datetime | None = Field(description="latest end of the sign-in")
    csrf_token: str = Field(description="the header X-Podium-CSRF of changes made with the cookie")


class SignInOption(BaseModel):
    """An identity provider that signs people in."""

    name: str
    path: str


def session_router(sessions: ConsoleSessions) -> APIRouter:
    router = APIRouter(prefix="/v1/session", tags=["Session"])

    @router.post("", operation_id="CreateSession")
    async def create(request: Request, response: Response) -> SessionResource:
        """Signs in to the console with the API key of the request."""
        credential, caller = current_origin().credential, current_identity()
        if not credential.startswith(API_KEY) or _session(request) is not None:
            raise KeyNeededToSignIn
        key_id = credential.removeprefix(API_KEY)
        session, secret = await sessions.begin(caller, credential, key_id)
        _set_cookie(response, secret)
        return _shown(request, caller, session, secret)

    @router.get("", operation_id="GetSession")
    async def get(request: Request) -> SessionResource:
        """Returns the caller; of a console's page, its session."""
        session = _session(request)
        return _shown(request, current_identity(), session, secret_of(request.headers))

    @router.delete("", operation_id="DeleteSession", status_code=204)
    async def delete(request: Request, response: Response) -> None:
        """Signs out of the console; without a session it changes nothing."""
        if session := _session(request):
            await sessions.end(session)
        response.delete_cookie(COOKIE, secure=True, httponly=True, samesite="strict")

    return router


def sign_in_router(
    sessions: ConsoleSessions, sign_in: OidcSignIn, platform: ProtectedResource
) -> APIRouter:
    """The routes are open, because a person who signs in has no credential yet."""
    router = APIRouter(prefix=CONSOLE, include_in_schema=False)

    @router.get("/sign-in-options")
    async def options() -> list[SignInOption]:
        return [
            SignInOption(name=name, path=f"{CONSOLE}/sign-in/{client}")
            for client, name in sign_in.names.items()
        ]

    @router.get("/sign-in/{client}")
    async def start(client: str, request: Request) -> Response:
        pending = PendingSignIn.begin(client)
        try:
            url = await sign_in.authorization_url(pending, _redirect_uri(request))
        except DomainError as error:
            return _failed(error)
        response = _redirect(url)
        response.set_cookie(
            PENDING_COOKIE,
            pending.to_cookie(),
            PENDING_S,
            secure=True,
            httponly=True,
            # The provider's page sends the browser back, which "strict" takes for another site.
            samesite="lax",
        )
        return response

    @router.get("/signed-in")
    async def finish(request: Request) -> Response:
        try:
            pending = PendingSignIn.from_cookie(request.cookies.get(PENDING_COOKIE, ""))
            person, issuer = await sign_in.finish(
                pending, request.query_params, _redirect_uri(request)
            )
            _, secret = await sessions.begin(person, f"oidc {issuer}", None)
        except DomainError as error:
            return _failed(error)
        response = _redirect(CONSOLE)
        response.delete_cookie(PENDING_COOKIE, secure=True, httponly=True, samesite="lax")
        _set_cookie(response, secret)
        return response

    def _redirect_uri(request: Request) -> str:
        return f"{platform.base_url(request.scope)}{SIGNED_IN}"

    return router


def _failed(error: DomainError) -> Response:
    """The console has words for the reasons; those of the address could be anybody's."""
    return _redirect(f"{CONSOLE}?sign-in={error.reason}")


def _redirect(url: str) -> RedirectResponse:
    return RedirectResponse(url, 303, headers={"cache-control": "no-store"})


def _set_cookie(response: Response, secret: str) -> None:
    lifetime_s = int(LIFETIME.total_seconds())
    response.set_cookie(COOKIE, secret, lifetime_s, secure=True, httponly=True, samesite="strict")
    response.headers["cache-control"] = "no-store"


def _session(request: Request) -> ConsoleSession | None:
    found: ConsoleSession | None = request.scope.get(COOKIE)
    return found


def _shown(
    request: Request, caller: Identity, session: ConsoleSession | None, secret: str
) -> SessionResource:
    return SessionResource(
        tenant=caller.tenant,
        subject=caller.subject,
        credential=current_origin().credential,
        scopes=sorted(scope for scope in Scope if caller.may(scope)),
        roles=sorted(caller.named("role")),
        teams=sorted(caller.named("team")),
        agents=sorted(caller.named("agent")),
        operations=allowed_operations(request.app, caller),
        create_time=session and session.create_time,
        expire_time=session and session.expire_time,
        csrf_token=csrf_token(secret) if session else "",
    )
