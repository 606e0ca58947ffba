import asyncio
import time
import uuid
from dataclasses import dataclass
from typing import Any

import httpx
import uuid_utils

from chaos.client_calls import WAITING, ClientFunctions
from chaos.scene import TENANTS, Scene
from chaos.scripts import Task
from chaos.tools import CLIENT_TOOL

FINISHED = "EPISODE_STATE_FINISHED"
BUDGET = {"currency_code": "USD", "amount": "1"}
TIME_LIMIT = "900s"
POLL_S = 0.5


@dataclass(frozen=True)
class Started:
    id: str
    tenant: str
    task: Task


class Load:
    def __init__(self, scene: Scene, accept_s: float, end_s: float = 300.0) -> None:
        self._scene = scene
        self._accept_s, self._end_s = accept_s, end_s
        self._count = 0
        self._functions = ClientFunctions(scene.client_effects)
        self._open: dict[str, str] = {}
        """The tenant of each episode that runs, by its id."""

    async def start(self, task: Task) -> Started | None:
        tenant = TENANTS[self._count % len(TENANTS)]
        self._count += 1
        episode_id = str(uuid.UUID(int=uuid_utils.uuid7().int))
        spec = {
            "task": task.text,
            "tool_names": list(task.tools),
            "client_tools": [CLIENT_TOOL] if task.tools else [],
            "budget": BUDGET,
            "time_limit": TIME_LIMIT,
        }
        body = {"episode_id": episode_id, "spec": spec}
        deadline = time.monotonic() + self._accept_s
        async with self._scene.client(tenant) as client:
            while time.monotonic() < deadline:
                reply = await _sent(client, "POST", "/v1/episodes", body)
                if reply is not None and reply.is_success:
                    self._open[episode_id] = tenant
                    return Started(episode_id, tenant, task)
                if reply is not None and reply.status_code < 500 and reply.status_code != 429:
                    raise RuntimeError(f"an episode was rejected: {reply.text}")
                await asyncio.sleep(POLL_S)
        return None

    async def ended(self, episodes: list[Started]) -> set[str]:
        deadline = time.monotonic() + self._end_s
        while self._open and time.monotonic() < deadline:
            await asyncio.sleep(POLL_S)
        return {one.id for one in episodes} - self._open.keys()

    async def attend(self) -> None:
        """Looks after what runs, without end: runs the client's functions, notes who ended."""
        while True:
            for episode_id, tenant in list(self._open.items()):
                await self._look(tenant, episode_id)
            await asyncio.sleep(POLL_S)

    async def _look(self, tenant: str, episode_id: str) -> None:
        async with self._scene.client(tenant) as client:
            reply = await _sent(client, "GET", f"/v1/episodes/{episode_id}")
            if reply is None or not reply.is_success:
                return
            state = reply.json()["episode"]["state"]
            if state == WAITING:
                await self._functions.answer(client, episode_id)
            elif state == FINISHED:
                del self._open[episode_id]


async def _sent(
    client: httpx.AsyncClient, method: str, path: str, body: Any = None
) -> httpx.Response | None:
    """None when nothing came back: the same request is sent again."""
    try:
        return await client.request(method, path, json=body)
    except httpx.TransportError:
        return None
