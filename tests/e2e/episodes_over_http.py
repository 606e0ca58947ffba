import asyncio
import uuid
from typing import Any

import httpx
import uuid_utils

FINISHED = "EPISODE_STATE_FINISHED"


def new_id() -> str:
    return str(uuid.UUID(int=uuid_utils.uuid7().int))


async def start(client: httpx.AsyncClient, task: str = "what is 6 x 7?", **spec: Any) -> str:
    episode_id = new_id()
    body = {
        "episode_id": episode_id,
        "spec": {"task": task, "tool_names": ["calculator"], **spec},
    }
    reply = await client.post("/v1/episodes", json=body)
    assert reply.is_success, reply.text
    return episode_id


async def finished(client: httpx.AsyncClient, episode_id: str) -> dict[str, Any]:
    """The episode once it has ended, asked again while the platform fixes itself."""
    async with asyncio.timeout(150):
        while True:
            episode = await _get(client, f"/v1/episodes/{episode_id}")
            if episode and episode["episode"]["state"] == FINISHED:
                found: dict[str, Any] = episode["episode"]
                return found
            await asyncio.sleep(0.3)


async def trajectory(client: httpx.AsyncClient, episode_id: str) -> dict[str, Any]:
    reply = await client.get(f"/v1/episodes/{episode_id}/trajectory")
    assert reply.is_success, reply.text
    found: dict[str, Any] = reply.json()["trajectory"]
    return found


async def entries(client: httpx.AsyncClient, episode_id: str) -> list[dict[str, Any]]:
    kinds = ["ENTRY_KIND_CAPTURE"]
    params: dict[str, Any] = {"episode_id": episode_id, "page_size": 1000, "kinds": kinds}
    reply = await client.get("/v1/entries", params=params)
    assert reply.is_success, reply.text
    found: list[dict[str, Any]] = reply.json().get("entries", [])
    return found


async def _get(client: httpx.AsyncClient, path: str) -> dict[str, Any] | None:
    try:
        reply = await client.get(path)
    except httpx.TransportError:
        return None
    return reply.json() if reply.is_success else None
