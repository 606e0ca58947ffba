"""`model: "tool/NAME/ALIAS"`: called without an episode, charged to the last token."""

import json
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from integration.podium_cli.conftest import CommandLine
from integration.podium_cli.episodes.test_clamping import api
from integration.podium_cli.episodes.test_fallback_models import PRICES, as_admin, expert, price_of
from openai_server import OpenAiServer, Reply

TASK: Any = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "How many moons has Mars?"},
]
USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 40},
}

AT_CEILING = {
    "unknown_price": "UNKNOWN_PRICE_RULE_ADMIT_AT_CEILING",
    "price_ceiling": {"currency_code": "USD", "amount": "1"},
}


@pytest.fixture
def prices(podium: CommandLine, tmp_path: Path) -> None:
    for alias, price in PRICES.items():
        path = tmp_path / f"{alias}.json"
        path.write_text(json.dumps(price_of(alias, price)))
        imported = podium("prices", "import", str(path))
        assert imported.returncode == 0, imported.stderr


@pytest.fixture
def experts(podium: CommandLine, prices: None) -> Iterator[OpenAiServer]:
    """Two priced models as one tool of this tenant."""
    models = [f"{alias}-model" for alias in PRICES]
    with (
        OpenAiServer([Reply("two; I think", usage=USAGE)] * 20, models=models) as server,
        as_admin(podium) as client,
    ):
        tool = {"spec": expert(server.base_url), "shared": True}
        registered = client.post("/v1/tools", json=tool)
        assert registered.is_success, registered.text
        yield server
        assert client.delete("/v1/tools/expert").is_success


@pytest.fixture
def client(podium: CommandLine) -> Iterator[openai.OpenAI]:
    with api(podium) as http:
        key = http.headers["authorization"].removeprefix("Bearer ")
        with openai.OpenAI(base_url=f"{http.base_url}/v1", api_key=key, max_retries=0) as client:
            yield client


def ledger_entries(podium: CommandLine, key: str) -> list[dict[str, Any]]:
    found, token = [], ""
    with api(podium) as http:
        while True:
            query: dict[str, Any] = {"page_size": 1000, "page_token": token}
            page = http.get("/v1/entries", params=query).json()
            found += [entry for entry in page["entries"] if entry["key"] == key]
            if not (token := page["next_page_token"]):
                return found


def test_the_ledger_has_exactly_what_the_provider_reports(
    podium: CommandLine, client: openai.OpenAI, experts: OpenAiServer
) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model="tool/expert/large", messages=TASK, temperature=0.5, max_tokens=200, stop=";"
    )
    answer = raw.parse()
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("two", "stop")
    assert answer.usage
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (100, 10)
    extra = (answer.model_extra or {})["podium"]
    assert Decimal(extra["cost"]["amount"]) == 110 * PRICES["large"]
    [asked] = experts.requests
    assert (asked["model"], asked["messages"]) == ("large-model", TASK)
    assert (asked["temperature"], asked["max_tokens"]) == (0.5, 200)

    call_id = raw.headers["x-podium-episode"]
    reserve, capture = ledger_entries(podium, f"{call_id}/0/tool/0")
    assert (reserve["kind"], capture["kind"]) == ("ENTRY_KIND_RESERVE", "ENTRY_KIND_CAPTURE")
    used = {each["dimension"]: each["amount"] for each in capture["usage"]["quantities"]}
    assert used == {
        "USAGE_DIMENSION_INPUT_FRESH": "60",
        "USAGE_DIMENSION_CACHE_READ": "40",
        "USAGE_DIMENSION_OUTPUT_TEXT": "10",
    }
    assert capture["usage"]["source"] == "USAGE_SOURCE_PROVIDER"
    assert capture["usage"]["provider_request_id"] == "chatcmpl-1"
    assert Decimal(capture["amount"]["amount"]) == Decimal(extra["cost"]["amount"])
    subject = capture["subject"]
    assert (subject["tool"], subject["model"], subject["episode_id"]) == ("expert", "large", "")
    assert capture["policy_version"].startswith("balanced/")
    with api(podium) as http:
        assert http.get(f"/v1/episodes/{call_id}").status_code == 404
        shown = http.get(f"/v1/direct-calls/{call_id}").json()["call"]
    assert (shown["content"], shown["ledger_key"]) == ("two; I think", capture["key"])


def test_a_retry_with_its_key_is_one_call_and_one_charge(
    podium: CommandLine, client: openai.OpenAI, experts: OpenAiServer
) -> None:
    headers = {"idempotency-key": "moons"}
    wanted: Any = {"model": "tool/expert/small", "messages": TASK, "extra_headers": headers}
    first = client.chat.completions.create(**wanted)
    again = client.chat.completions.create(**wanted)
    assert (again.id, again.choices) == (first.id, first.choices)
    assert len(experts.requests) == 1
    call_id = first.id.removeprefix("chatcmpl-")
    kinds = [entry["kind"] for entry in ledger_entries(podium, f"{call_id}/0/tool/0")]
    assert kinds == ["ENTRY_KIND_RESERVE", "ENTRY_KIND_CAPTURE"]
    with pytest.raises(openai.ConflictError):
        client.chat.completions.create(**{**wanted, "max_tokens": 7})


def test_choices_streams_and_other_apis_call_it_as_well(
    client: openai.OpenAI, experts: OpenAiServer
) -> None:
    stream = client.chat.completions.create(
        model="tool/expert/small",
        messages=TASK,
        n=2,
        stream=True,
        stream_options={"include_usage": True},
    )
    said: dict[int, str] = {}
    for chunk in stream:
        for choice in chunk.choices:
            said[choice.index] = said.get(choice.index, "") + (choice.delta.content or "")
        used = chunk.usage
    assert said == {0: "two; I think", 1: "two; I think"}
    assert used and used.total_tokens == 220
    response = client.responses.create(model="tool/expert/small", input="How many moons has Mars?")
    assert response.output_text == "two; I think"
    assert len(experts.requests) == 3


def test_models_that_the_policy_allows_are_listed_and_others_are_a_403(
    podium: CommandLine, client: openai.OpenAI, experts: OpenAiServer
) -> None:
    names: set[str] = set()
    # The gateway remembers names for some seconds, maybe from before the tool was there.
    while not {"tool/expert/small", "tool/expert/large"} <= names:
        names = {model.id for model in client.models.list()}
        time.sleep(0.05)
    assert "tool/expert" not in names
    with pytest.raises(openai.BadRequestError, match="name one, as tool"):
        client.chat.completions.create(model="tool/expert", messages=TASK)
    with api(podium) as admin:
        for name, rule in (
            ("no-large", {"deny": {"models": ["large"]}}),
            ("no-expert", {"deny": {"names": ["expert"]}}),
            ("ask-first", {"approval": {"names": ["expert"]}}),
            ("cheap", {"price_ceiling": {"currency_code": "USD", "amount": "0.000001"}}),
        ):
            made = admin.post("/v1/policies", json={"spec": {"name": name, **rule}})
            assert made.is_success, made.text
    for policy, model, reason in (
        ("no-large", "tool/expert/large", "TOOL_DENIED"),
        ("no-expert", "tool/expert", "TOOL_DENIED"),
        ("ask-first", "tool/expert/small", "APPROVAL_REQUIRED"),
        ("cheap", "tool/expert/small", "TOOL_DENIED"),
    ):
        with pytest.raises(openai.PermissionDeniedError) as raised:
            client.chat.completions.create(
                model=model, messages=TASK, extra_body={"podium": {"policy": policy}}
            )
        assert raised.value.code == reason.lower(), raised.value
    allowed = client.chat.completions.create(
        model="tool/expert/small", messages=TASK, extra_body={"podium": {"policy": "no-large"}}
    )
    assert allowed.choices[0].message.content == "two; I think"
    with pytest.raises(openai.NotFoundError, match="there is no tool nobody"):
        client.chat.completions.create(model="tool/nobody", messages=TASK)
    assert len(experts.requests) == 1


def test_a_budget_is_held_to_and_what_fails_says_so(
    client: openai.OpenAI, experts: OpenAiServer
) -> None:
    with pytest.raises(openai.APIStatusError) as raised:
        client.chat.completions.create(
            model="tool/expert/large",
            messages=TASK,
            extra_body={"podium": {"budget_usd": "0.000001"}},
        )
    assert (raised.value.status_code, raised.value.code) == (402, "call_budget_exhausted")
    assert not experts.requests
    experts.take_back()
    fault = {"code": "context_length_exceeded"}
    experts.push(Reply("maximum context length is 5 tokens", 400, error=fault))
    with pytest.raises(openai.BadRequestError) as too_long:
        client.chat.completions.create(model="tool/expert/large", messages=TASK)
    assert too_long.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError, match="orchestrator"):
        client.chat.completions.create(
            model="tool/expert/large", messages=TASK, extra_body={"podium": {"turn_limit": 3}}
        )


def test_a_call_that_never_left_the_platform_costs_nothing(
    podium: CommandLine, prices: None, client: openai.OpenAI
) -> None:
    with as_admin(podium) as admin:
        tool = {"spec": expert("http://127.0.0.1:1/v1"), "shared": True}
        assert admin.post("/v1/tools", json=tool).is_success
        with pytest.raises(openai.APIStatusError) as raised:
            client.chat.completions.create(model="tool/expert/small", messages=TASK)
        assert admin.delete("/v1/tools/expert").is_success
    assert (raised.value.status_code, raised.value.code) == (503, "call_unavailable")
    call_id = raised.value.response.json()["error"]["metadata"]["call_id"]
    kinds = [entry["kind"] for entry in ledger_entries(podium, f"{call_id}/0/tool/0")]
    assert kinds == ["ENTRY_KIND_RESERVE", "ENTRY_KIND_RELEASE"]


def test_what_an_unknown_price_means_is_the_policys_to_say(
    podium: CommandLine, client: openai.OpenAI, experts: OpenAiServer
) -> None:
    unpriced = expert(experts.base_url)
    for model in unpriced["connection"]["llm"]["models"]:
        model["sku"] = "nobody-knows"
    with as_admin(podium) as admin:
        assert admin.post("/v1/tools", json={"spec": unpriced, "shared": True}).is_success
    with api(podium) as tenant:
        made = tenant.post("/v1/policies", json={"spec": {"name": "at-ceiling", **AT_CEILING}})
        assert made.is_success, made.text
    wanted: Any = {"model": "tool/expert/small", "messages": TASK}
    with pytest.raises(openai.PermissionDeniedError) as raised:
        client.chat.completions.create(**{**wanted, "model": "tool/expert/small:cost-first"})
    assert raised.value.code == "tool_denied", raised.value
    admitted = client.chat.completions.create(**wanted)
    extra = (admitted.model_extra or {})["podium"]
    assert (extra["cost"], extra["unpriced_calls"]) == (None, 1)
    # Held at the policy's ceiling, which this budget does not cover.
    small = {"policy": "at-ceiling", "budget_usd": "0.01"}
    with pytest.raises(openai.APIStatusError) as exhausted:
        client.chat.completions.create(**wanted, extra_body={"podium": small})
    assert exhausted.value.code == "call_budget_exhausted"
    large = {"policy": "at-ceiling", "budget_usd": "5"}
    client.chat.completions.create(**wanted, extra_body={"podium": large})
    assert len(experts.requests) == 2


WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        "strict": True,
    },
}
ASKED = {
    "id": "call_7f",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Oslo"}'},
}
CALLING = Reply("", finish_reason="tool_calls", message={"tool_calls": [ASKED]}, usage=USAGE)


def test_functions_of_the_client_are_the_models_own(
    client: openai.OpenAI, experts: OpenAiServer
) -> None:
    experts.take_back()
    experts.push(CALLING, Reply("cold", usage=USAGE))
    asked: Any = {"model": "tool/expert/small", "tools": [WEATHER], "parallel_tool_calls": False}
    first = client.chat.completions.create(
        **asked, messages=TASK, tool_choice="required", seed=5, stop=["END"]
    )
    choice = first.choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    [call] = list(choice.message.tool_calls or [])
    assert call.to_dict() == ASKED
    result: Any = {"role": "tool", "tool_call_id": call.id, "content": "-3"}
    again = client.chat.completions.create(
        **asked, messages=[*TASK, choice.message.to_dict(), result], tool_choice="none"
    )
    assert again.choices[0].message.content == "cold"
    begun, continued = experts.requests
    assert begun["tools"] == [WEATHER]
    assert (begun["tool_choice"], begun["parallel_tool_calls"]) == ("required", False)
    assert (begun["seed"], begun["stop"]) == (5, ["END"])
    assert continued["tool_choice"] == "none" and continued["tools"] == [WEATHER]
    assert continued["messages"][-2:] == [
        {"role": "assistant", "content": None, "tool_calls": [ASKED]},
        result,
    ]


def test_other_apis_have_the_models_functions_as_well(
    client: openai.OpenAI, experts: OpenAiServer
) -> None:
    experts.take_back()
    experts.push(CALLING, CALLING)
    model = "tool/expert/small"
    function: Any = {"type": "function", **WEATHER["function"]}
    response = client.responses.create(model=model, input="How cold?", tools=[function])
    [item] = response.output
    assert item.type == "function_call"
    assert (item.call_id, item.arguments) == ("call_7f", '{"city": "Oslo"}')
    tool: Any = {"name": "weather", "input_schema": WEATHER["function"]["parameters"]}
    with anthropic.Anthropic(
        base_url=str(client.base_url).removesuffix("/v1/"), api_key=client.api_key, max_retries=0
    ) as other:
        message = other.messages.create(
            model=model, max_tokens=50, messages=[{"role": "user", "content": "?"}], tools=[tool]
        )
    [block] = message.content
    assert block.type == "tool_use" and message.stop_reason == "tool_use"
    assert (block.id, block.input) == ("call_7f", {"city": "Oslo"})


def test_an_answer_has_the_form_that_was_asked_for(
    client: openai.OpenAI, experts: OpenAiServer
) -> None:
    experts.take_back()
    experts.push(Reply('{"moons": 2}', usage=USAGE), Reply("{}", usage=USAGE))
    schema: Any = {"type": "object", "properties": {"moons": {"type": "integer"}}}
    wanted: Any = {"model": "tool/expert/small", "messages": TASK}
    named: Any = {"type": "json_schema", "json_schema": {"name": "moons", "schema": schema}}
    answer = client.chat.completions.create(**wanted, response_format=named, logprobs=True)
    assert answer.choices[0].message.content == '{"moons": 2}'
    probabilities = answer.choices[0].logprobs
    assert probabilities and probabilities.content
    assert "".join(each.token for each in probabilities.content) == '{"moons": 2}'
    client.chat.completions.create(**wanted, response_format={"type": "json_object"})
    first, second = experts.requests
    assert first["response_format"]["json_schema"]["schema"] == schema
    assert (first["logprobs"], first["top_logprobs"]) == (True, 0)
    assert second["response_format"] == {"type": "json_object"}


def test_tokens_are_streamed_as_the_model_writes_them(
    podium: CommandLine, client: openai.OpenAI, experts: OpenAiServer
) -> None:
    model, gate = "tool/expert/small", threading.Event()
    gated = Reply("two; I think", usage=USAGE, gate=gate)
    experts.take_back()
    experts.push(gated, gated, gated)
    chunks = client.chat.completions.create(model=model, messages=TASK, stream=True)
    said = ""
    while said != "two":
        said += next(chunks).choices[0].delta.content or ""
    gate.set()
    for chunk in chunks:
        said += chunk.choices[0].delta.content or "" if chunk.choices else ""
        last = chunk
    assert said == "two; I think"
    assert Decimal((last.model_extra or {})["podium"]["cost"]["amount"]) == 110 * PRICES["small"]
    gate.clear()
    with client.responses.stream(model=model, input="How many?") as events:
        for event in events:
            if event.type == "response.output_text.delta" and event.snapshot == "two":
                gate.set()
            elif event.type == "response.completed":
                assert event.response.output_text == "two; I think"
    gate.clear()
    with (
        anthropic.Anthropic(
            base_url=str(client.base_url).removesuffix("/v1/"), api_key=client.api_key
        ) as other,
        other.messages.stream(
            model=model, max_tokens=50, messages=[{"role": "user", "content": "?"}]
        ) as parts,
    ):
        read = ""
        for text in parts.text_stream:
            read += text
            if read == "two":
                gate.set()
    assert read == "two; I think"


def test_a_stream_stops_before_a_text_that_arrives_in_pieces(
    client: openai.OpenAI, experts: OpenAiServer
) -> None:
    chunks = client.chat.completions.create(
        model="tool/expert/small", messages=TASK, stream=True, stop=["; I"]
    )
    said = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(said) == "two"
    assert experts.requests[-1]["stop"] == ["; I"]


def test_calls_are_streamed_in_pieces(client: openai.OpenAI, experts: OpenAiServer) -> None:
    experts.take_back()
    experts.push(CALLING)
    with client.chat.completions.stream(
        model="tool/expert/small", messages=TASK, tools=[WEATHER]
    ) as events:
        final = events.get_final_completion().choices[0]
    assert final.finish_reason == "tool_calls"
    [call] = list(final.message.tool_calls or [])
    assert (call.id, call.function.arguments) == ("call_7f", '{"city": "Oslo"}')


def test_a_client_that_leaves_ends_the_models_work_and_pays_for_what_was_written(
    podium: CommandLine, client: openai.OpenAI, experts: OpenAiServer
) -> None:
    gate = threading.Event()
    experts.take_back()
    experts.push(Reply("two; I think", usage=USAGE, gate=gate))
    chunks = client.chat.completions.create(model="tool/expert/small", messages=TASK, stream=True)
    said = ""
    while said != "two":
        chunk = next(chunks)
        said += chunk.choices[0].delta.content or ""
    chunks.close()
    while not experts.disconnects:
        time.sleep(0.01)
    gate.set()
    call_id = chunk.id.removeprefix("chatcmpl-")
    while len(found := ledger_entries(podium, f"{call_id}/0/tool/0")) < 2:
        time.sleep(0.05)
    capture = found[1]
    assert capture["usage"]["source"] == "USAGE_SOURCE_ESTIMATED"
    used = {each["dimension"]: int(each["amount"]) for each in capture["usage"]["quantities"]}
    assert used["USAGE_DIMENSION_OUTPUT_TEXT"] == 1
    assert 0 < Decimal(capture["amount"]["amount"]) < 110 * PRICES["small"]
