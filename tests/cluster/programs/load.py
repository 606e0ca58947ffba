"""Asks a gateway for so many seconds, as a patient application: what it accepted must be answered.

load.py episodes|direct-calls SECONDS AT_ONCE, with PODIUM_URL and PODIUM_API_KEY; says how many.
"""

import asyncio
import json
import os
import sys
import time
from typing import Any

import httpx
from uuid_utils import uuid7

PATIENCE_S = 300.0
Body = dict[str, Any]


def episode(id: str) -> Body:
    spec = {"task": "What is the capital of Burkina Faso?", "tool_names": ["country_facts"]}
    return {"episode_id": id, "spec": spec}


def call(id: str) -> Body:
    arguments = json.dumps({"country": "Burkina Faso"})
    return {"call_id": id, "spec": {"tool_name": "country_facts", "arguments_json": arguments}}


def has_ended(found: Body) -> bool:
    """Raises SystemExit when it ended without an answer."""
    one: Body = found.get("episode") or found.get("call") or {}
    if not (one.get("ended") or one.get("state") == "EPISODE_STATE_FINISHED"):
        return False
    if not (one.get("answer") or one.get("content")):
        raise SystemExit(f"ended without an answer: {one}")
    return True


async def asked(
    client: httpx.AsyncClient, method: str, path: str, body: Body | None = None
) -> Body:
    until = time.monotonic() + PATIENCE_S
    last = "nothing"
    while time.monotonic() < until:
        try:
            reply = await client.request(method, path, json=body)
        except httpx.TransportError as error:
            last = repr(error)
        else:
            if reply.is_success:
                return dict(reply.json())
            last = f"{reply.status_code} {reply.text}"
            if reply.status_code < 500 and reply.status_code != 429:
                break
        await asyncio.sleep(0.5)
    raise SystemExit(f"{method} {path}: {last}")


async def answered(client: httpx.AsyncClient, kind: str) -> None:
    id = str(uuid7())
    path = f"/v1/{kind}"
    await asked(client, "POST", path, episode(id) if kind == "episodes" else call(id))
    until = time.monotonic() + PATIENCE_S
    while not has_ended(await asked(client, "GET", f"{path}/{id}")):
        if time.monotonic() > until:
            raise SystemExit(f"{path}/{id} did not end")
        await asyncio.sleep(0.5)


async def main(kind: str, seconds: float, at_once: int) -> None:
    until = time.monotonic() + seconds
    ended = 0

    async def one_after_another(client: httpx.AsyncClient) -> None:
        nonlocal ended
        while time.monotonic() < until:
            await answered(client, kind)
            ended += 1

    key = os.environ["PODIUM_API_KEY"]
    async with (
        httpx.AsyncClient(
            base_url=os.environ["PODIUM_URL"],
            headers={"Authorization": f"Bearer {key}"},
            timeout=30,
        ) as client,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(at_once):
            group.create_task(one_after_another(client))
    sys.stdout.write(f"{ended} {kind} answered\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3])))
