import asyncio
import json
import random
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uuid_utils
from aiohttp import web

from gateway.config import DatabaseSettings
from gateway.keys.models import KeyRequest
from gateway.keys.offline import api_keys
from podium_kit.rpc.identity import Identity, Role, acting_as
from podium_operations.local.platform import LocalPlatform

# Longer than any limit that a call should meet.
PATIENCE_S = 60
FINISHED = "EPISODE_STATE_FINISHED"
UNFINISHED = [f"EPISODE_STATE_{name}" for name in ("PENDING", "RUNNING", "WAITING")]


class CallFailed(Exception):
    """A call got an error, or no answer in time."""


class Receiver:
    """A server of webhooks: `/quick` answers at once, `/slow` after twenty seconds."""

    def __init__(self) -> None:
        self.base_url = ""
        self._arrivals: dict[str, asyncio.Event] = {}

    def arrival_of(self, feedback_id: str) -> asyncio.Event:
        """Is set once the event of that feedback has arrived."""
        return self._arrivals.setdefault(feedback_id, asyncio.Event())

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_post("/quick", self._quick)
        app.router.add_post("/slow", self._slow)
        runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield
        finally:
            await runner.cleanup()

    async def _quick(self, request: web.Request) -> web.Response:
        text = await request.text()
        for feedback_id in [each for each in self._arrivals if each in text]:
            self._arrivals.pop(feedback_id).set()
        return web.Response(status=204)

    async def _slow(self, _request: web.Request) -> web.Response:
        await asyncio.sleep(20)
        return web.Response(status=204)


@dataclass
class Tenant:
    http: httpx.AsyncClient
    receiver: Receiver
    episode_ids: list[str] = field(default_factory=list)

    async def ask(
        self, method: str, path: str, body: Any = None, **params: str | int | list[str]
    ) -> Any:
        try:
            reply = await self.http.request(method, path, json=body, params=params)
        except httpx.HTTPError as error:
            raise CallFailed(f"{method} {path}: {error!r}") from error
        if not reply.is_success:
            raise CallFailed(f"{method} {path}: {reply.status_code} {reply.text[:200]}")
        return reply.json()

    async def start_call(self, tool: str, **arguments: object) -> str:
        call_id = new_id()
        spec = {"tool_name": tool, "arguments_json": json.dumps(arguments)}
        await self.ask("POST", "/v1/direct-calls", {"call_id": call_id, "spec": spec})
        return call_id

    async def call(self, tool: str, **arguments: object) -> None:
        call_id = await self.start_call(tool, **arguments)
        call: dict[str, Any] = {}
        while not call.get("ended"):
            path = f"/v1/direct-calls/{call_id}"
            call = (await self.ask("GET", path, wait="true"))["call"]
        if not call.get("content"):
            raise CallFailed(f"{tool}: {call.get('failure')}")

    async def start_episode(self, **spec: object) -> str:
        episode_id = new_id()
        offered = {"task": "what is 6 x 7?", "tool_names": ["calculator"], **spec}
        await self.ask("POST", "/v1/episodes", {"episode_id": episode_id, "spec": offered})
        return episode_id

    async def run_episode(self) -> str:
        """Runs an episode of three decisions and two calls to its end."""
        episode_id = await self.start_episode()
        while True:
            episode = (await self.ask("GET", f"/v1/episodes/{episode_id}"))["episode"]
            if episode["state"] == FINISHED:
                break
            await asyncio.sleep(0.05)
        if episode.get("answer") != "42":
            raise CallFailed(f"episode {episode_id}: {episode.get('failure')}")
        return episode_id

    async def give_feedback(self, feedback_id: str) -> None:
        path = f"/v1/episodes/{random.choice(self.episode_ids)}/feedback"
        await self.ask("POST", path, {"id": feedback_id, "score": 1.0})

    async def subscribe(self, name: str, path: str) -> None:
        hook = {
            "url": f"{self.receiver.base_url}{path}",
            "secret": {"name": "hooks"},
            "event_types": ["WEBHOOK_EVENT_TYPE_FEEDBACK_GIVEN"],
        }
        await self.ask("PUT", f"/v1/webhooks/{name}", hook)

    async def settle(self) -> None:
        """Deletes the tenant's webhooks and waits until its episodes have ended."""
        for hook in (await self.ask("GET", "/v1/webhooks")).get("webhooks", []):
            await self.ask("DELETE", f"/v1/webhooks/{hook['id']}")
        while (await self.ask("GET", "/v1/episodes", states=UNFINISHED)).get("episodes"):
            await asyncio.sleep(0.5)


def new_id() -> str:
    return str(uuid.UUID(int=uuid_utils.uuid7().int))


@asynccontextmanager
async def tenant(platform: LocalPlatform, name: str, receiver: Receiver) -> AsyncIterator[Tenant]:
    settings = DatabaseSettings(database_url=platform.dsn["gateway"])
    wanted = KeyRequest(name, f"admin of {name}", roles=frozenset({Role.TENANT_ADMIN}))
    async with api_keys(settings) as keys:
        with acting_as(Identity(name, "operator", frozenset())):
            _, key = await keys.issue(wanted)
    async with httpx.AsyncClient(
        base_url=platform.gateway_url,
        headers={"authorization": f"Bearer {key}"},
        timeout=PATIENCE_S,
        trust_env=False,
        verify=False,
        limits=httpx.Limits(max_connections=None),
    ) as http:
        made = Tenant(http, receiver)
        # An episode takes fifty pieces of feedback.
        for _ in range(10):
            made.episode_ids.append(await made.run_episode())
        yield made
