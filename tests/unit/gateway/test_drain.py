import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI

from callers import make_identity
from gateway.chat.routes import chat_router
from gateway.mcp_server.options import TaskOptions
from gateway.mcp_server.run_task import run_task
from gateway.messages.routes import messages_router
from gateway.responses.mcp_servers import RegisteredMcpTools
from gateway.responses.routes import ResponsesApi, responses_router
from gateway.server import DrainingServer
from podium_kit.rpc.identity import acting_as
from unit.gateway.waiting_episodes import UNUSED, WaitingEpisodes, make_starter

MESSAGES = {"messages": [{"role": "user", "content": "6*7?"}], "max_tokens": 9}


def app_over(episodes: WaitingEpisodes) -> FastAPI:
    app, starter = FastAPI(), make_starter(episodes)
    app.include_router(chat_router(starter))
    app.include_router(messages_router(starter))
    responses = ResponsesApi(starter, UNUSED, RegisteredMcpTools(UNUSED))
    app.include_router(responses_router(responses))
    return app


async def ask(app: FastAPI, path: str, body: dict[str, Any]) -> None:
    sent = iter([{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}])

    async def receive() -> MutableMapping[str, Any]:
        if message := next(sent, None):
            return message
        await asyncio.Event().wait()
        return {}

    async def send(message: MutableMapping[str, Any]) -> None: ...

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    await app(scope, receive, send)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", MESSAGES),
        ("/v1/messages", MESSAGES),
        ("/v1/responses", {"input": "6*7?"}),
    ],
)
async def test_a_request_that_the_drain_cuts_off_leaves_its_episode(
    path: str, body: dict[str, Any], stream: bool
) -> None:
    episodes = WaitingEpisodes()
    with acting_as(make_identity()):
        whole = {"model": "podium", "stream": stream, **body}
        request = asyncio.create_task(ask(app_over(episodes), path, whole))
        await episodes.followed.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
    assert episodes.cancelled == episodes.started != []


async def test_so_does_a_task_of_mcp() -> None:
    episodes = WaitingEpisodes()

    async def tell(line: str) -> None: ...

    with acting_as(make_identity()):
        arguments = {"task": "6*7?"}
        running = run_task(make_starter(episodes), arguments, TaskOptions(), tell)
        request = asyncio.create_task(running)
        await episodes.followed.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
    assert episodes.cancelled == episodes.started != []


async def test_the_server_ends_when_they_have_left() -> None:
    config = uvicorn.Config(FastAPI(), lifespan="off", timeout_graceful_shutdown=0)
    config.load()
    server = DrainingServer(config, asyncio.Event(), 0)
    server.servers, server.lifespan = [], config.lifespan_class(config)
    left: list[bool] = []

    async def request() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            for _ in range(3):
                await asyncio.sleep(0)
            left.append(True)
            raise

    server.server_state.tasks.add(asyncio.create_task(request()))
    await server.shutdown()
    assert left
