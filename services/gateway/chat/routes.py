"""/v1/chat/completions and /v1/models, as OpenAI's clients expect them."""

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse, Response

from gateway.chat.catalogue import DEFAULT_ALIAS, Catalogue, Names
from gateway.chat.disconnects import while_connected
from gateway.chat.request import ChatRequest
from gateway.chat.service import ChatRun, Episodes
from gateway.episode_ids import EpisodeId, EpisodeIds
from gateway.sse import kept_alive, sse_response

CLIENT_CLOSED_REQUEST = 499


@dataclass(frozen=True)
class ChatApi:
    """What chat requests are answered with."""

    catalogue: Catalogue
    episodes: Episodes
    episode_ids: EpisodeIds
    wait_s: float
    keepalive_s: float
    cancel_on_disconnect: bool

    async def complete(self, body: ChatRequest, request: Request) -> Response:
        """Starts the episode before anything is sent, so that rejections have a status."""
        run = await self._run(body, request)
        headers = {"x-podium-episode": run.episode_id}
        if body.stream:
            events = kept_alive(run.stream(), self.keepalive_s)
            return sse_response(events, headers, BackgroundTask(self._leave, run))
        answer = await while_connected(request, run.complete())
        if answer is None:
            await self._leave(run)
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        return JSONResponse(answer, headers=headers)

    async def _run(self, body: ChatRequest, request: Request) -> ChatRun:
        """A new episode, or the one that waits for the results in the request."""
        choice = await self.catalogue.resolve(body.model)
        if (results := body.results()) is not None:
            # The ids of its calls name it, so a client that went away can ask again.
            episode = EpisodeId(results.episode_id, chosen_by_caller=True)
            run = ChatRun(self.episodes, episode, body, self.wait_s)
            await run.go_on(results)
            return run
        order = body.order(choice)
        async with self.episode_ids.starting(request.headers, await request.body()) as episode:
            run = ChatRun(self.episodes, episode, body, self.wait_s)
            await run.start(order)
        return run

    async def _leave(self, run: ChatRun) -> None:
        if self.cancel_on_disconnect:
            await run.leave()


def chat_router(api: ChatApi) -> APIRouter:
    """The routes."""
    router = APIRouter(prefix="/v1", tags=["OpenAI"])

    @router.post("/chat/completions", operation_id="CreateChatCompletion", response_model=None)
    async def create_chat_completion(body: ChatRequest, request: Request) -> Response:
        return await api.complete(body, request)

    @router.get("/models", operation_id="ListModels")
    async def list_models() -> dict[str, Any]:
        return {"object": "list", "data": _model_list(await api.catalogue.names())}

    @router.get("/models/{model:path}", operation_id="RetrieveModel")
    async def retrieve_model(model: str) -> dict[str, Any]:
        await api.catalogue.resolve(model)
        return _model(model)

    return router


def _model_list(names: Names) -> list[dict[str, Any]]:
    plain = [DEFAULT_ALIAS, *(model.name for model in names.models)]
    with_policy = [f"{name}:{policy}" for name in plain for policy in names.policies]
    return [_model(name) for name in (*plain, *with_policy)]


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "podium"}
