from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from gateway.a2a_server.models import CARD_PATH
from gateway.a2a_server.models import PATH as A2A_PATH
from gateway.access import AccessMiddleware, Doorkeeper
from gateway.audit.attempts import RejectedAttempts
from gateway.audit.routes import audit_router
from gateway.audit.service import AuditLog
from gateway.chat.routes import chat_router
from gateway.config import GatewaySettings
from gateway.console.routes import console_router
from gateway.embeddings.routes import embeddings_router
from gateway.errors import MalformedRequest, UnknownRoute
from gateway.http.error_responses import (
    error_response,
    malformed_request,
    on_domain_error,
    plain_error_response,
)
from gateway.http.request_body import RequestBodyMiddleware, require_texts
from gateway.http.request_log import RequestLogMiddleware
from gateway.http.security_headers import SecurityHeadersMiddleware
from gateway.keys.routes import api_key_router, roles_router
from gateway.keys.service import ApiKeys
from gateway.limits.middleware import LimitMiddleware
from gateway.limits.open_requests import OpenRequests
from gateway.limits.rate_limiter import RateLimiter
from gateway.limits.routes import limit_router
from gateway.limits.service import LimitBook
from gateway.mcp_server.models import PATH as MCP_PATH
from gateway.messages.routes import messages_router
from gateway.oidc.protected_resource import ProtectedResource
from gateway.oidc.sign_in import OidcSignIn
from gateway.responses.routes import ResponsesApi, responses_router
from gateway.rest.openapi import document_of, documented_methods
from gateway.rest.routes import ROUTES
from gateway.rest.transcoding import Transcoder
from gateway.sessions.routes import session_router, sign_in_router
from gateway.sessions.service import ConsoleSessions
from gateway.views.routes import views_router
from gateway.views.store import PostgresViewStore
from podium_kit.rpc.errors import DomainError

DESCRIPTION = """Runs tasks as episodes of an orchestrator and its tools.
Every request carries `Authorization: Bearer pod_...`, or a token of your identity provider."""
EXPOSED_HEADERS = [
    "x-podium-episode",
    "x-podium-ignored",
    "x-request-id",
    "retry-after",
    "www-authenticate",
    "x-ratelimit-limit-requests",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-requests",
]


@dataclass(frozen=True)
class Tenancy:
    keys: ApiKeys
    sessions: ConsoleSessions
    sign_in: OidcSignIn
    doorkeeper: Doorkeeper
    protected: ProtectedResource
    log: AuditLog
    attempts: RejectedAttempts
    views: PostgresViewStore
    limits: LimitBook
    rate: RateLimiter
    open_requests: OpenRequests


@dataclass(frozen=True)
class Apis:
    responses: ResponsesApi
    mcp: ASGIApp
    a2a: ASGIApp


def build_app(
    settings: GatewaySettings,
    tenancy: Tenancy,
    apis: Apis,
    transcoder: Transcoder,
    operation: Sequence[APIRouter],
) -> FastAPI:
    # FastAPI's own documentation pages load their scripts from foreign hosts.
    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        description=DESCRIPTION,
        dependencies=[Depends(require_texts)],
        # Its own has queries, which may hold a tenant's words, in spans, and counts requests again.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    for router in (
        chat_router(apis.responses.starter),
        responses_router(apis.responses),
        embeddings_router(apis.responses.starter),
        messages_router(apis.responses.starter),
        session_router(tenancy.sessions),
        sign_in_router(tenancy.sessions, tenancy.sign_in, tenancy.protected),
        api_key_router(tenancy.keys),
        roles_router(),
        views_router(tenancy.views),
        limit_router(tenancy.limits),
        audit_router(tenancy.log),
        *operation,
        console_router(),
        tenancy.protected.router(),
    ):
        app.include_router(router)
    app.router.routes += [
        Route(MCP_PATH, apis.mcp, methods=["POST"]),
        Route(A2A_PATH, apis.a2a, methods=["POST"]),
        Route(CARD_PATH, apis.a2a, methods=["GET"]),
    ]
    app.router.routes.extend(transcoder.http_route(route) for route in ROUTES)
    _serve_openapi(app)
    _handle_errors(app)
    _add_middleware(app, settings, tenancy)
    return app


def _serve_openapi(app: FastAPI) -> None:
    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> dict[str, Any]:
        return document_of(app)


def _handle_errors(app: FastAPI) -> None:
    app.add_exception_handler(DomainError, on_domain_error)

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        return error_response(malformed_request(error))

    @app.exception_handler(UnicodeEncodeError)
    async def half_a_character(_: Request, __: UnicodeEncodeError) -> JSONResponse:
        # JSON can write half of a surrogate pair; UTF-8, and so every service, cannot.
        return error_response(MalformedRequest("a text holds half a character, like \\ud800"))

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404:
            return error_response(UnknownRoute(request.method, request.url.path))
        headers = {name.lower(): value for name, value in (error.headers or {}).items()}
        # A router names the methods of one route, and a path has several.
        if error.status_code == 405 and (methods := documented_methods(app, request.url.path)):
            headers["allow"] = ", ".join(methods)
        reason = f"HTTP_{error.status_code}"
        return plain_error_response(error.status_code, error.detail, reason, headers)


def _add_middleware(app: FastAPI, settings: GatewaySettings, tenancy: Tenancy) -> None:
    """The last one added is the outermost."""
    app.add_middleware(
        RequestBodyMiddleware,
        bytes_max=settings.body_bytes_max,
        timeout_s=settings.body_timeout_s,
    )
    app.add_middleware(
        LimitMiddleware,
        book=tenancy.limits,
        rate=tenancy.rate,
        open_requests=tenancy.open_requests,
        timeout_s=settings.database_timeout_s,
    )
    app.add_middleware(
        AccessMiddleware,
        doorkeeper=tenancy.doorkeeper,
        protected=tenancy.protected,
        attempts=tenancy.attempts,
    )
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=EXPOSED_HEADERS,
        )
    app.add_middleware(RequestLogMiddleware)
    app.add_middleware(SecurityHeadersMiddleware, public_url=settings.public_url)
