import asyncio
import json
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx
import uuid_utils

from chaos.effects_log import EffectsLog
from chaos.scene import TENANTS, Scene
from chaos.scripts import CLIENT_TOOL, Task

WAITING = "EPISODE_STATE_WAITING"
# The request of one turn is among the events that are there already.
EVENTS_TIMEOUT_S = 10.0


class ClientFunctions:
    """Runs what episodes ask for. The same call, asked for or answered again, is run once."""

    def __init__(self, log: EffectsLog) -> None:
        self._log = log
        self._done: set[tuple[str, int, int]] = set()

    async def answer(self, client: httpx.AsyncClient, episode_id: str) -> None:
        """Answers the calls that wait, if the platform can be reached; else the next time."""
        with suppress(httpx.TransportError):
            asked = await _asked(client, episode_id)
            if asked is None:
                return
            turn, calls = asked
            results = [self._result(episode_id, turn, each) for each in calls]
            path = f"/v1/episodes/{episode_id}/tool-results"
            await client.post(path, json={"turn": turn, "results": results})

    def _result(self, episode_id: str, turn: int, call: dict[str, Any]) -> dict[str, Any]:
        order, index = json.loads(call["arguments_json"])["order"], call.get("index", 0)
        if (episode_id, turn, index) not in self._done:
            self._done.add((episode_id, turn, index))
            self._log.place(order)
        return {"call_index": index, "content": f"placed {order}"}


async def _asked(
    client: httpx.AsyncClient, episode_id: str
) -> tuple[int, list[dict[str, Any]]] | None:
    found = None
    path = f"/v1/episodes/{episode_id}/events"
    # The stream stays open while the episode waits: it is read until nothing more comes.
    with suppress(httpx.ReadTimeout):
        async with client.stream("GET", path, timeout=EVENTS_TIMEOUT_S) as reply:
            async for line in reply.aiter_lines():
                if not line.startswith("data: "):
                    continue
                event = json.loads(line.removeprefix("data: "))
                if requested := event.get("client_calls_requested"):
                    found = event["turn"], requested["calls"]
                    break
    return found


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
            # Scripts make several calls at once, so that tools of several kinds meet a fault.
            "parallel_calls": 8,
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
