"""Answers of an orchestrator that come while its model writes them, in each API."""

import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio

from local_platforms import local_platform
from openai_server import OpenAiServer, Reply
from podium_client import AsyncPodium
from podium_operations.local.state import Connection
from temporary_files import server_folder

MODEL = "scripted-model"
ANSWER = 'Ouagadougou, "Ouaga" \U0001f600\nis the capital. Write to ada@example.com.'
BEGINNING = "Ouagadougou"
REPLY = json.dumps({"thought": "I know it.", "answer": ANSWER})
GUARDED = {
    "name": "guarded",
    "preset": "balanced",
    "unknown_price": "UNKNOWN_PRICE_RULE_ADMIT",
    "guardrails": [
        {
            "name": "no-mail",
            "personal_data": {"kinds": ["PERSONAL_DATA_KIND_EMAIL"]},
            "action": "GUARDRAIL_ACTION_REDACT",
        }
    ],
}


@dataclass(frozen=True)
class StreamingPlatform:
    model: OpenAiServer
    connection: Connection

    def client(self) -> httpx.AsyncClient:
        key = {"Authorization": f"Bearer {self.connection.api_key}"}
        return httpx.AsyncClient(
            base_url=self.connection.gateway_url, headers=key, timeout=120, trust_env=False
        )


@pytest_asyncio.fixture(scope="module")
async def streaming() -> AsyncIterator[StreamingPlatform]:
    with (
        server_folder("streamed") as folder,
        OpenAiServer(models=[MODEL], vllm_version="0.32.0", context_tokens=32_768) as model,
    ):
        running = local_platform(folder, model.base_url, MODEL)
        async with running as (_, connection):
            yield StreamingPlatform(model, connection)


@contextmanager
def gated(model: OpenAiServer) -> Iterator[threading.Event]:
    """The model's next reply, which stops after the answer's first word until the gate opens."""
    gate = threading.Event()
    place = REPLY.index(BEGINNING) + len(BEGINNING)
    # Before its characters comes the event with the ids of the prompt.
    model.push(Reply(REPLY, gate=gate, gate_after=place + 1))
    try:
        yield gate
    finally:
        gate.set()


async def events(reply: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    assert reply.status_code == 200, await reply.aread()
    async for line in reply.aiter_lines():
        if line.startswith("data: {"):
            event = json.loads(line.removeprefix("data: "))
            assert not event.get("error"), event
            yield event


def chat_text(event: dict[str, Any]) -> str:
    return "".join(choice["delta"].get("content") or "" for choice in event["choices"])


def response_text(event: dict[str, Any]) -> str:
    return str(event["delta"]) if event["type"] == "response.output_text.delta" else ""


def message_text(event: dict[str, Any]) -> str:
    return str(event.get("delta", {}).get("text", ""))


QUESTION = [{"role": "user", "content": "What is the capital of Burkina Faso?"}]
CHAT = {"messages": QUESTION, "stream_options": {"include_usage": True}}
MESSAGES = {"messages": QUESTION, "max_tokens": 400}
RESPONSES = {"input": QUESTION[0]["content"]}
APIS = [
    pytest.param("/v1/chat/completions", CHAT, chat_text, id="chat completions"),
    pytest.param("/v1/responses", RESPONSES, response_text, id="responses"),
    pytest.param("/v1/messages", MESSAGES, message_text, id="messages"),
]


@pytest.mark.parametrize(("path", "body", "text_of"), APIS)
async def test_the_first_word_comes_before_the_model_has_written_the_rest(
    streaming: StreamingPlatform, path: str, body: dict[str, Any], text_of: Any
) -> None:
    request = {"model": "podium", "stream": True, **body}
    with gated(streaming.model) as gate:
        async with streaming.client() as client, client.stream("POST", path, json=request) as reply:
            coming, pieces, seen = events(reply), list[str](), list[dict[str, Any]]()
            while "".join(pieces) != BEGINNING:
                seen.append(await anext(coming))
                pieces.append(text_of(seen[-1]))
            gate.set()
            seen += [event async for event in coming]
            episode_id = reply.headers["x-podium-episode"]
        async with streaming.client() as client:
            episode = (await client.get(f"/v1/episodes/{episode_id}")).json()["episode"]
    assert "".join(map(text_of, seen)) == ANSWER == episode["answer"]
    assert any(event.get("usage") or event.get("response", {}).get("usage") for event in seen)


async def test_the_python_client_hands_over_what_is_written_so_far(
    streaming: StreamingPlatform,
) -> None:
    with gated(streaming.model) as gate:
        shown: list[str] = []

        def show(text: str) -> None:
            shown.append(text)
            if "".join(shown) == BEGINNING:
                gate.set()

        connection = streaming.connection
        async with AsyncPodium(connection.gateway_url, connection.api_key) as podium:
            episode = await podium.episodes.run(QUESTION[0]["content"], on_text=show)
    assert "".join(shown) == ANSWER == episode.answer


async def test_an_answer_that_a_guardrail_redacts_comes_whole(
    streaming: StreamingPlatform,
) -> None:
    async with streaming.client() as client:
        created = await client.post("/v1/policies", json={"spec": GUARDED})
        assert created.is_success, created.text
        streaming.model.push(REPLY)
        request = {"model": "podium", "stream": True, **CHAT, "podium": {"policy": "guarded"}}
        async with client.stream("POST", "/v1/chat/completions", json=request) as reply:
            pieces = [chat_text(event) async for event in events(reply)]
    assert [piece for piece in pieces if piece] == [ANSWER.replace("ada@example.com", "[redacted]")]
    assert "stream" not in streaming.model.requests[-1]
