"""`/v1/embeddings` with OpenAI's client: a registered model, held, called, charged by tokens."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import openai
import pytest

from integration.podium_cli.conftest import CommandLine
from integration.podium_cli.episodes.test_clamping import api
from integration.podium_cli.episodes.test_direct_calls import client, ledger_entries  # noqa: F401 fixtures
from integration.podium_cli.episodes.test_fallback_models import as_admin
from openai_server import EMBEDDING_SIZE, OpenAiServer, Reply, vector_of

PRICE = Decimal("0.00000002")
PRICES = {
    "sku": "embed-sku",
    "tenant": "default",
    "currency_code": "USD",
    "components": [{"dimension": "input_fresh", "unit_price": "0.02", "per": "1000000"}],
}


def embedder(base_url: str, **llm: Any) -> dict[str, Any]:
    model = {
        "alias": "small",
        "model": "embed-model",
        "base_url": base_url,
        "api": "LLM_API_OPENAI_EMBEDDINGS",
        "sku": "embed-sku",
    }
    return {
        "name": "embedder",
        "kind": "TOOL_KIND_LLM",
        "description": "Turns texts into vectors.",
        "side_effect": "SIDE_EFFECT_PURE",
        "parameters_json_schema": '{"type": "object"}',
        "connection": {"llm": {"role": "LLM_ROLE_EMBEDDER", "models": [model], **llm}},
    }


@pytest.fixture
def server(podium: CommandLine, tmp_path: Path) -> Iterator[OpenAiServer]:
    path = tmp_path / "price.json"
    path.write_text(json.dumps(PRICES))
    imported = podium("prices", "import", str(path))
    assert imported.returncode == 0, imported.stderr
    with OpenAiServer(models=["embed-model"]) as server, as_admin(podium) as http:
        tool = {"spec": embedder(server.base_url), "shared": True}
        registered = http.post("/v1/tools", json=tool)
        assert registered.is_success, registered.text
        yield server
        assert http.delete("/v1/tools/embedder").is_success


def test_vectors_come_in_the_order_of_the_texts_and_cost_their_tokens(
    podium: CommandLine,
    client: openai.OpenAI,  # noqa: F811
    server: OpenAiServer,
) -> None:
    texts = ["Mars", "a longer text about Oslo", "München"]
    raw = client.embeddings.with_raw_response.create(model="tool/embedder", input=texts)
    found = raw.parse()
    assert [each.embedding for each in found.data] == [
        vector_of(text, EMBEDDING_SIZE) for text in texts
    ]
    tokens = sum(map(len, texts))
    assert (found.usage.prompt_tokens, found.usage.total_tokens) == (tokens, tokens)
    extra = (found.model_extra or {})["podium"]
    assert Decimal(extra["cost"]["amount"]) == tokens * PRICE
    [asked] = server.requests
    assert (asked["model"], asked["input"]) == ("embed-model", texts)

    call_id = raw.headers["x-podium-episode"]
    reserve, capture = ledger_entries(podium, f"{call_id}/0/tool/0")
    assert (reserve["kind"], capture["kind"]) == ("ENTRY_KIND_RESERVE", "ENTRY_KIND_CAPTURE")
    used = {each["dimension"]: each["amount"] for each in capture["usage"]["quantities"]}
    assert used == {"USAGE_DIMENSION_INPUT_FRESH": str(tokens)}
    assert Decimal(capture["amount"]["amount"]) == tokens * PRICE
    assert (capture["subject"]["tool"], capture["subject"]["model"]) == ("embedder", "small")


def test_lengths_formats_aliases_and_keys_are_honoured(
    client: openai.OpenAI,  # noqa: F811
    server: OpenAiServer,
) -> None:
    key = {"idempotency-key": "vectors"}
    wanted: Any = {"model": "tool/embedder/small", "input": "Mars", "dimensions": 3}
    floats = client.embeddings.create(**wanted, encoding_format="float", extra_headers=key)
    assert floats.data[0].embedding == vector_of("Mars", 3)
    again = client.embeddings.create(**wanted, encoding_format="float", extra_headers=key)
    assert again == floats
    assert len(server.requests) == 1
    assert {"tool/embedder", "tool/embedder/small"} <= {each.id for each in client.models.list()}


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"model": "podium"}, "orchestrators make no vectors"),
        ({"model": "tool/ask_llm"}, "makes no vectors"),
        ({"input": [[1, 2, 3]]}, "check_embedding_ctx_length"),
        ({"input": []}, "input"),
        ({"input": [""]}, "input"),
        ({"input": ["x"] * 2_049}, "2048"),
        ({"dimensions": 0}, "dimensions"),
    ],
)
def test_what_cannot_be_embedded_is_a_400_that_says_why(
    client: openai.OpenAI,  # noqa: F811
    server: OpenAiServer,
    wanted: dict[str, Any],
    words: str,
) -> None:
    with pytest.raises(openai.BadRequestError, match=words):
        client.embeddings.create(**{"model": "tool/embedder", "input": "Mars", **wanted})
    assert not server.requests


def test_what_its_server_and_a_budget_reject_costs_nothing(
    podium: CommandLine,
    client: openai.OpenAI,  # noqa: F811
    server: OpenAiServer,
) -> None:
    server.push(Reply("maximum context length is 5 tokens", 400))
    with pytest.raises(openai.BadRequestError) as raised:
        client.embeddings.create(model="tool/embedder", input="Mars")
    assert raised.value.code == "context_length_exceeded"
    tiny = {"podium": {"budget_usd": "0.000000000001"}}
    with pytest.raises(openai.APIStatusError) as broke:
        client.embeddings.create(model="tool/embedder", input="Mars", extra_body=tiny)
    assert broke.value.status_code == 402
    with api(podium) as http:
        call_id = raised.value.response.json()["error"]["metadata"]["call_id"]
        shown = http.get(f"/v1/direct-calls/{call_id}").json()["call"]
    assert Decimal(shown["cost"]["amount"]) == 0


def test_chats_and_episodes_are_told_that_it_writes_no_text(
    podium: CommandLine,
    client: openai.OpenAI,  # noqa: F811
    server: OpenAiServer,
) -> None:
    said: Any = [{"role": "user", "content": "How many moons has Mars?"}]
    with pytest.raises(openai.BadRequestError, match="/v1/embeddings"):
        client.chat.completions.create(model="tool/embedder", messages=said)
    with pytest.raises(openai.BadRequestError, match="/v1/embeddings"):
        client.chat.completions.create(
            model="podium", messages=said, extra_body={"podium": {"tools": ["embedder"]}}
        )
    with api(podium) as http:
        started = http.post("/v1/episodes", json={"spec": {"task": "turn texts into vectors"}})
        episode = started.json()["episode"]
        with http.stream("GET", f"/v1/episodes/{episode['id']}/events") as events:
            first = next(line for line in events.iter_lines() if line.startswith("data: "))
        http.post(f"/v1/episodes/{episode['id']}/cancel", json={})
    assert "embedder" not in json.loads(first.removeprefix("data: "))["started"]["tool_names"]
    assert not server.requests


def test_role_and_api_go_together(podium: CommandLine) -> None:
    wrong = embedder("http://127.0.0.1:9/v1", role="LLM_ROLE_GENERALIST")
    with as_admin(podium) as http:
        rejected = http.post("/v1/tools", json={"spec": wrong, "shared": True})
    assert rejected.status_code == 400
    assert "go together" in rejected.json()["error"]["message"]
