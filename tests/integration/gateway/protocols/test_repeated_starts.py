import hashlib
import json
from typing import Any

import pytest
from openai import InternalServerError

from integration.gateway.gateway_under_test import Gateway

CHAT: dict[str, Any] = {"model": "podium", "messages": [{"role": "user", "content": "6*7?"}]}
START = {"spec": {"task": "6*7?"}}
STARTS = [("/v1/chat/completions", CHAT), ("/v1/episodes", START)]


@pytest.mark.parametrize(("path", "body"), STARTS)
async def test_three_retries_without_a_key_run_one_episode(
    gateway: Gateway, path: str, body: dict[str, Any]
) -> None:
    """OpenAI's clients retry so: no idempotency key, and the replies were lost."""
    gateway.episodes.replies_to_lose = 2
    replies = [await gateway.post(path, json=body) for _ in range(3)]
    assert [reply.status_code for reply in replies] == [503, 503, 200]
    [only] = gateway.episodes.episodes
    for reply in replies[:2]:
        error = reply.json()["error"]
        assert (error["reason"], error["metadata"]["episode_id"]) == ("START_UNKNOWN", only)
        assert f"/v1/episodes/{only}" in error["message"]
        assert reply.headers["retry-after"]
    assert replies[2].headers["x-podium-episode"] == only


async def test_a_client_whose_watch_is_lost_is_told_not_to_start_again(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.clients.WATCH_PATIENCE_S", 0.0)
    gateway.episodes.watches_to_break = 9
    async with gateway.openai().with_options(max_retries=3) as client:
        with pytest.raises(InternalServerError) as lost:
            await client.chat.completions.create(**CHAT)
    assert lost.value.status_code == 503
    [only] = gateway.episodes.episodes
    assert f"/v1/episodes/{only}/events" in lost.value.message
    assert lost.value.response.headers["x-should-retry"] == "false"


async def test_the_client_can_ask_what_became_of_a_start(gateway: Gateway) -> None:
    gateway.episodes.replies_to_lose = 1
    error = (await gateway.post("/v1/episodes", json=START)).json()["error"]
    found = await gateway.get(f"/v1/episodes/{error['metadata']['episode_id']}")
    assert found.json()["episode"]["spec"]["task"] == "6*7?"


@pytest.mark.parametrize(("path", "body"), STARTS)
async def test_the_same_request_after_an_answer_is_a_new_episode(
    gateway: Gateway, path: str, body: dict[str, Any]
) -> None:
    gateway.episodes.replies_to_lose = 1
    for _ in range(4):
        await gateway.post(path, json=body)
    # The second found the first; the third and the fourth are wanted for themselves.
    assert len(gateway.episodes.episodes) == 3


async def key_of(gateway: Gateway, subject: str) -> str:
    async with gateway.http() as http:
        body = {"subject": subject, "roles": ["developer"]}
        key: str = (await http.post("/v1/api-keys", json=body)).json()["key"]
        return key


async def test_an_idempotency_key_belongs_to_the_person_who_sends_it(gateway: Gateway) -> None:
    headers = {"idempotency-key": "order-1"}
    ada, bob = await key_of(gateway, "ada"), await key_of(gateway, "bob")
    async with gateway.http(ada) as adas, gateway.http(bob) as bobs:
        started = [
            (await http.post("/v1/episodes", json=START, headers=headers)).json()["episode"]["id"]
            for http in (adas, bobs, adas, bobs)
        ]
    assert started[:2] == started[2:] and started[0] != started[1]


@pytest.mark.parametrize("kind", ["", "body\n3\n", "key\n3\n"])
async def test_no_crafted_key_is_that_of_a_colleagues_request_without_one(
    gateway: Gateway, kind: str
) -> None:
    """MCP's keys may hold line breaks."""
    body = json.dumps(START, separators=(",", ":")).encode()
    crafted = f"{kind}bob\n{hashlib.sha256(body).hexdigest()}"
    ada, bob = await key_of(gateway, "ada"), await key_of(gateway, "bob")
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "run_task",
            "arguments": {"task": "6*8?"},
            "_meta": {"podium": {"idempotency_key": crafted}},
        },
    }
    accepted = {"accept": "application/json, text/event-stream"}
    async with gateway.http(ada) as adas, gateway.http(bob) as bobs:
        await adas.post("/v1/mcp", json=call, headers=accepted)
        headers = {"content-type": "application/json"}
        theirs = await bobs.post("/v1/episodes", content=body, headers=headers)
    assert theirs.status_code == 200, theirs.text


async def test_nobody_else_finds_the_episode_of_a_lost_reply(gateway: Gateway) -> None:
    gateway.episodes.replies_to_lose = 1
    async with gateway.http() as http, gateway.http(await gateway.new_key("umbrella")) as other:
        await http.post("/v1/episodes", json=START)
        theirs = await other.post("/v1/episodes", json=START)
        different = await http.post("/v1/episodes", json={"spec": {"task": "6*8?"}})
    assert (theirs.status_code, different.status_code) == (200, 200)
    assert len(gateway.episodes.episodes) == 3
