from typing import Any

from fastapi import APIRouter, Request
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse, Response

from gateway.chat.request import ChatRequest
from gateway.chat.service import ChatRun
from gateway.chat.starting import EpisodeStarter, while_connected
from gateway.errors import ModelNotFound
from gateway.http.sse import kept_alive, sse_response

CLIENT_CLOSED_REQUEST = 499


def chat_router(episodes: EpisodeStarter) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["OpenAI"])

    @router.post("/chat/completions", operation_id="CreateChatCompletion", response_model=None)
    async def create_chat_completion(body: ChatRequest, request: Request) -> Response:
        # Started before anything is sent, so that rejections have a status.
        started = await episodes.start(body, request, body.choice_count)
        runs, headers = started.runs, started.headers
        chat = ChatRun(runs, body)
        if body.stream:
            events = kept_alive(chat.stream(), episodes.keepalive_s)
            return sse_response(events, headers, BackgroundTask(episodes.left, *runs))
        async with episodes.waited_for(*runs):
            answer = await while_connected(request, chat.complete())
        if answer is None:
            await episodes.left(*runs)
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        return JSONResponse(answer, headers=headers)

    @router.get("/models", operation_id="ListModels")
    async def list_models() -> dict[str, Any]:
        ids = (await episodes.catalogue.names()).ids()
        return {"object": "list", "data": [_model(name) for name in ids]}

    @router.get("/models/{model:path}", operation_id="RetrieveModel")
    async def retrieve_model(model: str) -> dict[str, Any]:
        choice = await episodes.catalogue.resolve(model)
        names = await episodes.catalogue.names()
        if choice.tool and model not in names.ids():
            raise ModelNotFound(model, names.ids(), names.policies)
        return _model(model)

    return router


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "podium"}
