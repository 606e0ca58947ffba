from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse, Response

from gateway.chat.catalogue import DEFAULT_ALIAS
from gateway.chat.routes import CLIENT_CLOSED_REQUEST
from gateway.chat.starting import EpisodeStarter, while_connected
from gateway.clients import EpisodesClient
from gateway.http.sse import kept_alive, sse_response
from gateway.models import StopReason
from gateway.responses.ids import ResponseId
from gateway.responses.items import custom_names
from gateway.responses.mcp_servers import LABEL, RegisteredMcpTools
from gateway.responses.mcp_tools import NamedServer
from gateway.responses.request import FollowUp, ResponseRequest
from gateway.responses.response import Shape
from gateway.responses.stream import streamed

PREVIOUS = "previous_response_id"


@dataclass(frozen=True)
class ResponsesApi:
    starter: EpisodeStarter
    episodes: EpisodesClient
    mcp_servers: RegisteredMcpTools

    async def create(self, body: ResponseRequest, request: Request) -> Response:
        """Starts the episode before anything is sent, so that rejections have a status."""
        if body.background:
            # A response is asked for by its episode's id.
            await self.starter.catalogue.orchestrator(body.model)
        follow_up = await self._follow_up(body)
        started = await self.starter.start(follow_up, request)
        [run], headers = started.runs, started.headers
        shape = Shape.of(ResponseId(run.episode_id, run.answered_turn), body, follow_up.servers)
        if body.background:
            return JSONResponse(shape.running(), headers=headers)
        if body.stream:
            events = kept_alive(streamed(run, shape), self.starter.keepalive_s)
            return sse_response(events, headers, BackgroundTask(self.starter.left, run))
        async with self.starter.waited_for(run):
            ending = run.outcome(with_calls=bool(shape.servers))
            outcome = await while_connected(request, ending)
        if outcome is None:
            await self.starter.left(run)
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        return JSONResponse(shape.ended(outcome), headers=headers)

    async def find(self, response_id: str) -> dict[str, Any]:
        """Returns the response so far. Raises the error of an episode without an answer."""
        found = ResponseId.read(response_id)
        outcome = await self.episodes.outcome_now(found.episode_id, found.answered_turn)
        if outcome is None:
            return Shape(found, DEFAULT_ALIAS).running()
        kept = await self.episodes.kept(found.episode_id, LABEL)
        servers, custom = await self.mcp_servers.kept(kept), custom_names(kept.client_tools)
        return Shape(found, DEFAULT_ALIAS, servers, custom).ended(outcome)

    async def cancel(self, response_id: str) -> dict[str, Any]:
        """Ends its episode; one that has ended stays as it is, and is shown as `find` does."""
        found = ResponseId.read(response_id)
        await self.episodes.cancel(found.episode_id, "its response was cancelled")
        outcome = await self.episodes.outcome_now(found.episode_id, found.answered_turn)
        # One that waits for its client has no reason until its end.
        if outcome is None or outcome.stop_reason in (None, StopReason.CANCELLED):
            return {**Shape(found, DEFAULT_ALIAS).running(), "status": "cancelled"}
        return await self.find(response_id)

    async def _follow_up(self, body: ResponseRequest) -> FollowUp:
        servers = await self._servers(body)
        if not body.previous_response_id or body.results() is not None:
            return FollowUp(body, servers)
        before = ResponseId.read(body.previous_response_id)
        return FollowUp(
            body, servers, await self.episodes.prior_messages(before.episode_id, PREVIOUS)
        )

    async def _servers(self, body: ResponseRequest) -> tuple[NamedServer, ...]:
        if not (wanted := body.mcp_tools()):
            return ()
        choice = await self.starter.catalogue.resolve(body.model)
        return await self.mcp_servers.named(wanted, body.podium.policy or choice.policy)


def responses_router(api: ResponsesApi) -> APIRouter:
    router = APIRouter(prefix="/v1/responses", tags=["OpenAI"])

    @router.post("", operation_id="CreateResponse", response_model=None)
    async def create_response(body: ResponseRequest, request: Request) -> Response:
        return await api.create(body, request)

    @router.get("/{response_id}", operation_id="RetrieveResponse")
    async def retrieve_response(response_id: str) -> dict[str, Any]:
        return await api.find(response_id)

    @router.post("/{response_id}/cancel", operation_id="CancelResponse")
    async def cancel_response(response_id: str) -> dict[str, Any]:
        return await api.cancel(response_id)

    return router
