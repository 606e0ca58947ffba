from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse, Response

from gateway.chat.routes import CLIENT_CLOSED_REQUEST
from gateway.chat.starting import EpisodeStarter, while_connected
from gateway.http.sse import kept_alive, sse_response
from gateway.messages.parameters import MESSAGES
from gateway.messages.request import CountRequest, MessageRequest
from gateway.messages.response import answered, streamed


class TokenCount(BaseModel):
    """The size of a prompt."""

    input_tokens: int = Field(description="with those of tools and instructions")


def messages_router(episodes: EpisodeStarter) -> APIRouter:
    router = APIRouter(prefix="/v1/messages", tags=["Anthropic"])

    @router.post("", operation_id="CreateMessage", response_model=None)
    async def create_message(body: MessageRequest, request: Request) -> Response:
        # Started before anything is sent, so that rejections have a status.
        started = await episodes.start(body, request)
        [run], headers = started.runs, started.headers
        if body.stream:
            events = kept_alive(streamed(run, body), episodes.keepalive_s)
            return sse_response(events, headers, BackgroundTask(episodes.left, run))
        async with episodes.waited_for(run):
            answer = await while_connected(request, answered(run, body))
        if answer is None:
            await episodes.left(run)
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        return JSONResponse(answer, headers=headers)

    @router.post("/count_tokens", operation_id="CountMessageTokens")
    async def count_message_tokens(body: CountRequest) -> TokenCount:
        MESSAGES.check(body.model_extra)
        return TokenCount(input_tokens=await episodes.prompt_tokens(body))

    return router
