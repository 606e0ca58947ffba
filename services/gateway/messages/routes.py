"""/v1/messages, as Anthropic's clients expect it."""

from fastapi import APIRouter, Request
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse, Response

from gateway.chat.disconnects import while_connected
from gateway.chat.routes import CLIENT_CLOSED_REQUEST
from gateway.chat.starting import EpisodeStarter
from gateway.messages.request import MessageRequest
from gateway.messages.response import message, streamed
from gateway.sse import kept_alive, sse_response


def messages_router(episodes: EpisodeStarter) -> APIRouter:
    """The route."""
    router = APIRouter(prefix="/v1/messages", tags=["Anthropic"])

    @router.post("", operation_id="CreateMessage", response_model=None)
    async def create_message(body: MessageRequest, request: Request) -> Response:
        # Started before anything is sent, so that rejections have a status.
        run = await episodes.run(body, request)
        headers = {"x-podium-episode": run.episode_id}
        if body.stream:
            events = kept_alive(streamed(run, body.model), episodes.keepalive_s)
            return sse_response(events, headers, BackgroundTask(episodes.left, run))
        outcome = await while_connected(request, run.outcome())
        if outcome is None:
            await episodes.left(run)
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        return JSONResponse(message(outcome, body.model), headers=headers)

    return router
