import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from e2e.conftest import MEETING_TASK, WholePlatform
from e2e.episodes_over_http import entries, trajectory
from e2e.test_openai_client import client_of

LOCAL = "127.0.0.1"
POLICY = {"name": "meeting", "unknown_price": "UNKNOWN_PRICE_RULE_ADMIT", "parallel_calls": 2}


class Meeting:
    """A server that answers no guest before the other one has come."""

    def __init__(self) -> None:
        self.url = ""
        self._both = asyncio.Barrier(2)

    async def welcome(self, request: web.Request) -> web.Response:
        await self._both.wait()
        return web.json_response({"guest": request.query["guest"]})


@pytest_asyncio.fixture
async def meeting() -> AsyncIterator[Meeting]:
    meeting, app = Meeting(), web.Application()
    app.router.add_get("/meet", meeting.welcome)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, LOCAL, 0).start()
    meeting.url = f"http://{LOCAL}:{runner.addresses[0][1]}/meet"
    yield meeting
    await runner.cleanup()


def tool_at(url: str) -> dict[str, Any]:
    return {
        "name": "meet",
        "kind": "TOOL_KIND_HTTP",
        "description": "lets a guest meet another one",
        "parameters_json_schema": (
            '{"type": "object", "properties": {"guest": {"type": "string"}}, "required": ["guest"]}'
        ),
        "connection": {"http": {"method": "GET", "url_template": f"{url}?guest={{guest}}"}},
        "side_effect": "SIDE_EFFECT_PURE",
        "sku": "tool/weather",
    }


async def first_turn(
    whole: WholePlatform, meeting: Meeting, model: str, **parameters: Any
) -> tuple[str, dict[str, Any]]:
    """The episode of a chat completion that asks for the meeting, and its first turn."""
    async with whole.client() as client:
        for path, spec in (("tools", tool_at(meeting.url)), ("policies", POLICY)):
            made = await client.post(f"/v1/{path}", json={"spec": spec})
            assert made.is_success, made.text
        reply = await client_of(whole).chat.completions.with_raw_response.create(
            model=model,
            messages=[{"role": "user", "content": MEETING_TASK}],
            extra_body={"podium": {"tools": ["meet", "calculator"]}},
            **parameters,
        )
        episode_id = reply.headers["x-podium-episode"]
        return episode_id, (await trajectory(client, episode_id))["turns"][0]


async def test_two_calls_of_a_turn_are_in_flight_at_once_and_each_is_charged(
    whole: WholePlatform, meeting: Meeting
) -> None:
    episode_id, turn = await first_turn(whole, meeting, "podium:meeting")
    answers = [call["observation"]["content"] for call in turn["tool_invocations"]]
    assert ["Ada" in answers[0], "Bob" in answers[1]] == [True, True]
    async with whole.client() as client:
        charged = {entry["key"] for entry in await entries(client, episode_id)}
    assert {f"{episode_id}/1/tool/{index}" for index in range(2)} <= charged


@pytest.mark.parametrize(
    ("model", "parameters"),
    [("podium:meeting", {"parallel_tool_calls": False}), ("podium", {})],
    ids=["ruled out by the request", "allowed by nothing"],
)
async def test_a_turn_of_one_call_makes_none_of_two(
    whole: WholePlatform, meeting: Meeting, model: str, parameters: dict[str, bool]
) -> None:
    _, turn = await first_turn(whole, meeting, model, **parameters)
    action = turn["model_call"]["response"]["action"]
    assert "2 calls at once; at most 1 are allowed" in action["malformed"]["message"]
    assert not turn.get("tool_invocations")
