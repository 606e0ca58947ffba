"""GET /v1/events of a whole platform: server-sent events that a client resumes."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from e2e.conftest import WholePlatform
from e2e.episodes_over_http import finished, start


@asynccontextmanager
async def client(whole: WholePlatform) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"authorization": f"Bearer {whole.connection.api_key}"}
    async with httpx.AsyncClient(
        base_url=whole.connection.gateway_url, headers=headers, timeout=120
    ) as http:
        yield http


async def messages(reply: httpx.Response) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Yields the id and the data of each event."""
    position = ""
    async for line in reply.aiter_lines():
        name, _, value = line.partition(": ")
        if name == "id":
            position = value
        elif name == "data":
            yield position, json.loads(value)


async def until(events: AsyncIterator[tuple[str, dict[str, Any]]], kind: str, episode: str) -> str:
    """Returns the position of the episode's event of the kind."""
    async for position, event in events:
        if event.get(kind, {}).get("episode_id") == episode:
            return position
    raise AssertionError("the stream ended")


async def test_a_stream_of_the_tenants_events_is_resumed_by_the_last_id(
    whole: WholePlatform,
) -> None:
    async with client(whole) as http:
        async with http.stream("GET", "/v1/events") as reply:
            assert reply.headers["content-type"].startswith("text/event-stream")
            events = messages(reply)
            _, first = await anext(events)
            assert first["opened"] == {"events_missed": False}
            episode = await start(http, "what is 6 x 7, as others see it?")
            begun = await until(events, "episode_started", episode)
        await finished(http, episode)
        async with http.stream("GET", "/v1/events", headers={"last-event-id": begun}) as reply:
            resumed = messages(reply)
            _, again = await anext(resumed)
            assert again["opened"] == {"events_missed": False}
            await until(resumed, "episode_ended", episode)
        strange = await http.get("/v1/events", headers={"last-event-id": "yesterday"})
    assert strange.status_code == 400
    assert "position of an event" in strange.json()["error"]["message"]
