"""The card at its well-known path, and the protocol's JSON-RPC, of both versions, at /v1/a2a."""

import logging

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, Router

from gateway.a2a_server.card import agent_card
from gateway.a2a_server.handler import REQUEST, TaskHandler
from gateway.a2a_server.models import CARD_PATH, PATH
from gateway.oidc.protected_resource import ProtectedResource

# The library logs what users wrote; requests and failures have logs of their own.
logging.getLogger("a2a").setLevel(logging.CRITICAL + 1)


class Contexts(DefaultServerCallContextBuilder):
    """Lets the handler see whether the client is still there."""

    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        context.state[REQUEST] = request
        return context


def a2a_endpoint(handler: TaskHandler, protected: ProtectedResource) -> Router:
    """The card is open, as the protocol has it."""

    async def card(request: Request) -> JSONResponse:
        base_url = protected.base_url(request.scope)
        # Without a public URL it names the address of one connection, which is no one else's.
        uncached = {"cache-control": "no-store", "vary": "host"}
        shown = agent_card_to_dict(agent_card(base_url, protected.issuers))
        return JSONResponse(shown, headers=uncached)

    tasks = create_jsonrpc_routes(
        handler, PATH, context_builder=Contexts(), enable_v0_3_compat=True
    )
    return Router([Route(CARD_PATH, card, methods=["GET"]), *tasks])
