import json
from contextlib import suppress
from typing import Any

import httpx

from chaos.effects_log import EffectsLog

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
