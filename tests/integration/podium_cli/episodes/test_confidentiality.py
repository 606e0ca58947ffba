"""A colleague without trajectories:read asks every route of the gateway for another's episode."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from integration.podium_cli.conftest import CommandLine
from integration.podium_cli.episodes.test_clamping import api
from openai_server import OpenAiServer

TASK = "How ill is patient Rosalind-4711?"
SECRETS = ("Rosalind-4711", "terminally")


@contextmanager
def key_of(podium: CommandLine, subject: str, role: str) -> Iterator[httpx.Client]:
    with api(podium) as admin:
        made = admin.post("/v1/api-keys", json={"subject": subject, "roles": [role]})
        assert made.is_success, made.text
        headers = {"authorization": f"Bearer {made.json()['key']}"}
        with httpx.Client(
            base_url=admin.base_url, headers=headers, trust_env=False, timeout=60
        ) as http:
            yield http


@pytest.fixture
def episode(podium: CommandLine, model: OpenAiServer) -> str:
    model.push('{"thought": "", "answer": "terminally"}')
    with key_of(podium, "ada", "tool-owner") as ada:
        reply = ada.post("/v1/responses", json={"model": "podium", "input": TASK})
        assert "terminally" in reply.text
        found: str = reply.json()["podium"]["episode_id"]
        assert all(secret in ada.get(f"/v1/episodes/{found}").text for secret in SECRETS)
    return found


def routes_of(episode: str) -> list[tuple[str, str, Any]]:
    response = f"resp_{episode.replace('-', '')}0000"
    spec = {"task": TASK}
    message = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "and now?"}]}
    uri = f"podium://episodes/{episode}"
    asked = {"jsonrpc": "2.0", "id": 1}
    return [
        ("GET", "/v1/episodes", None),
        ("GET", f"/v1/episodes/{episode}", None),
        ("GET", f"/v1/episodes/{episode}/events", None),
        ("GET", f"/v1/episodes/{episode}/trajectory", None),
        ("GET", "/v1/dead-letters", None),
        ("GET", "/v1/webhook-deliveries", None),
        ("POST", f"/v1/episodes/{episode}/cancel", {}),
        ("POST", f"/v1/episodes/{episode}/feedback", {"score": 1}),
        ("POST", f"/v1/episodes/{episode}/approve", {"turn": 1, "approved": True}),
        ("POST", f"/v1/episodes/{episode}/tool-results", {"turn": 1, "results": []}),
        ("POST", "/v1/episodes", {"episode_id": episode, "spec": spec}),
        ("GET", f"/v1/responses/{response}", None),
        ("POST", f"/v1/responses/{response}/cancel", {}),
        (
            "POST",
            "/v1/responses",
            {"model": "podium", "input": "Say it again.", "previous_response_id": response},
        ),
        (
            "POST",
            "/v1/mcp",
            asked | {"method": "resources/list", "params": {"cursor": "episodes "}},
        ),
        ("POST", "/v1/mcp", asked | {"method": "resources/read", "params": {"uri": uri}}),
        (
            "POST",
            "/v1/mcp",
            asked | {"method": "resources/read", "params": {"uri": f"{uri}/trajectory"}},
        ),
        ("POST", "/v1/a2a", asked | {"method": "tasks/get", "params": {"id": episode}}),
        ("POST", "/v1/a2a", asked | {"method": "tasks/resubscribe", "params": {"id": episode}}),
        (
            "POST",
            "/v1/a2a",
            asked
            | {"method": "message/send", "params": {"message": message | {"contextId": episode}}},
        ),
    ]


@pytest.mark.parametrize("role", ["tool-owner", "approver", "auditor"])
def test_no_route_gives_a_colleague_the_content(
    podium: CommandLine, episode: str, role: str
) -> None:
    headers = {"accept": "application/json, text/event-stream"}
    with key_of(podium, "eve", role) as eve:
        for method, path, body in routes_of(episode):
            reply = eve.request(method, path, json=body, headers=headers)
            shown = reply.text.replace(json.dumps(TASK), "")
            assert not [each for each in SECRETS if each in shown], (method, path, reply.text)
        listed = eve.get("/v1/episodes").json()["episodes"]
        got = eve.get(f"/v1/episodes/{episode}").json()["episode"]
        watched = eve.get(f"/v1/episodes/{episode}/events")
    assert got["content_withheld"] and got in listed
    assert watched.status_code == 200
    events = [json.loads(line[6:]) for line in watched.text.splitlines() if line[:6] == "data: "]
    assert events and all(each["content_withheld"] for each in events)


def test_the_command_shows_a_colleague_the_metadata(podium: CommandLine, episode: str) -> None:
    with key_of(podium, "eve", "auditor") as eve:
        key = eve.headers["authorization"].removeprefix("Bearer ")
        options = ("--url", str(eve.base_url), "--api-key", key)
        shown = podium("episodes", "show", episode, *options)
        listed = podium("episodes", "list", *options)
    for ended in (shown, listed):
        assert ended.returncode == 0, ended.stderr
        assert "content withheld" in ended.stdout
        assert not [each for each in SECRETS if each in ended.stdout]
