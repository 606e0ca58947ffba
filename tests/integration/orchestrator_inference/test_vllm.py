import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import jsonschema
import pytest
import pytest_asyncio
from transformers import AutoTokenizer

from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.smollm2 import SmolLM2
from podium_kit.embedded.vllm.server import EmbeddedVllm
from podium_training.grpo.model.grammar import Constraint, GrammarReplay
from podium_training.grpo.model.policy import prompt_digest

pytestmark = pytest.mark.vllm

MODEL = "smollm2-135m-instruct"
# What training needs: log-probabilities after temperature, cache hits, the chat template.
EXTRA_ARGS = [
    *("--logprobs-mode", "processed_logprobs", "--enable-prompt-tokens-details"),
    "--enable-tokenizer-info-endpoint",
]
TOOLS: dict[str, dict[str, Any]] = {
    "calculator": {"expression": {"type": "string"}},
    "convert": {"value": {"type": "number"}, "unit": {"enum": ["km", "mi"]}},
    "days_between": {
        "start": {"type": "string", "format": "date"},
        "end": {"type": "string", "format": "date"},
    },
    "statistics": {"numbers": {"type": "array", "items": {"type": "integer"}, "minItems": 1}},
    "lookup": {"filter": {"$ref": "#/$defs/filter"}},
}
DEFS = {
    "filter": {
        "type": "object",
        "properties": {"field": {"type": ["string", "null"]}, "not": {"$ref": "#/$defs/filter"}},
        "required": ["field"],
    }
}


@pytest_asyncio.fixture(scope="module")
async def vllm(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedVllm]:
    log_path = tmp_path_factory.mktemp("vllm") / "vllm.log"
    model = SmolLM2().directory
    server = EmbeddedVllm(model, MODEL, free_port(), log_path=log_path, extra_args=EXTRA_ARGS)
    await server.start()
    yield server
    await server.stop()


def parameters(properties: dict[str, Any]) -> dict[str, Any]:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "$defs": DEFS}


def make_request(seed: int, **changes: Any) -> pb.NextActionRequest:
    tools = [
        pb.ToolDefinition(name=name, parameters_json_schema=json.dumps(parameters(properties)))
        for name, properties in TOOLS.items()
    ]
    sampling = pb.Sampling(temperature=1.0, seed=seed, max_tokens=128)
    fields: dict[str, Any] = {"key": f"e/{seed}/model/0", "task": "How far is 26.2 miles in km?"}
    return pb.NextActionRequest(**(fields | {"tools": tools, "sampling": sampling} | changes))


async def test_every_action_parses_and_its_arguments_fit_the_tools_schema(
    vllm: EmbeddedVllm, start_service: Any
) -> None:
    stub = await start_service(vllm.base_url)
    requests = [stub.NextAction(make_request(seed), timeout=150) for seed in range(8)]
    for response in await asyncio.gather(*requests):
        assert response.action.WhichOneof("decision") in ("tool_calls", "final_answer")
        for call in response.action.tool_calls.calls:
            schema = parameters(TOOLS[call.tool_name])
            jsonschema.validate(json.loads(call.arguments_json), schema)


async def test_ids_and_logprobs_are_those_of_the_sampled_tokens(
    vllm: EmbeddedVllm, start_service: Any
) -> None:
    stub = await start_service(vllm.base_url)
    response = await stub.NextAction(make_request(1), timeout=150)
    assert len(response.completion_logprobs) == len(response.completion_token_ids) > 0
    assert all(logprob <= 0 for logprob in response.completion_logprobs)
    amounts = [int(entry.amount) for entry in response.usage.quantities]
    assert sum(amounts) == len(response.prompt_token_ids) + len(response.completion_token_ids)
    assert response.engine.startswith("vllm/")
    assert response.prompt_digest == prompt_digest(SmolLM2().directory), "the trainer's"


async def test_a_streamed_answer_is_sampled_and_recorded_as_a_whole_one(
    vllm: EmbeddedVllm, start_service: Any
) -> None:
    stub = await start_service(vllm.base_url)
    # An engine that runs nothing else computes the same twice.
    asked = make_request(3, must_answer=True)
    whole = await stub.NextAction(asked, timeout=150)
    streaming = pb.NextActionStreamingRequest(action=asked)
    *parts, last = [event async for event in stub.NextActionStreaming(streaming, timeout=150)]
    assert len(parts) > 1
    assert "".join(part.answer_part for part in parts) == last.response.action.final_answer
    for each in (whole, last.response):
        each.ClearField("latency")
        # Its number, and how much of the prompt the engine had in its cache.
        each.ClearField("usage")
    assert last.response.completion_logprobs == pytest.approx(whole.completion_logprobs, abs=1e-3)
    whole.ClearField("completion_logprobs")
    last.response.ClearField("completion_logprobs")
    assert last.response == whole


async def test_a_prompt_is_counted_as_it_is_tokenized(
    vllm: EmbeddedVllm, start_service: Any
) -> None:
    stub = await start_service(vllm.base_url)
    for mode in (pb.PROMPT_MODE_STATELESS, pb.PROMPT_MODE_CHAT, pb.PROMPT_MODE_TEMPLATE):
        request = make_request(1, prompt_mode=mode)
        counted = await stub.CountTokens(pb.CountTokensRequest(action=request))
        response = await stub.NextAction(request, timeout=150)
        assert counted.token_count == len(response.prompt_token_ids)


async def test_the_trainers_grammar_allows_what_was_sampled(
    vllm: EmbeddedVllm, start_service: Any
) -> None:
    stub = await start_service(vllm.base_url)
    tokenizer = AutoTokenizer.from_pretrained(SmolLM2().directory)
    replay = GrammarReplay(tokenizer, len(tokenizer))
    requests = [stub.NextAction(make_request(seed), timeout=150) for seed in range(4)]
    for response in await asyncio.gather(*requests):
        constraint = Constraint.recorded(
            response.constraint_json_schema, response.constraint_digest
        )
        ids = response.completion_token_ids
        assert len(replay.legal(constraint, ids)) == len(ids)


async def test_the_last_turn_always_answers(vllm: EmbeddedVllm, start_service: Any) -> None:
    stub = await start_service(vllm.base_url)
    requests = [
        stub.NextAction(make_request(seed, must_answer=True), timeout=150) for seed in range(4)
    ]
    for response in await asyncio.gather(*requests):
        assert response.action.WhichOneof("decision") == "final_answer"


async def test_a_cancelled_call_is_aborted_in_the_engine(
    vllm: EmbeddedVllm, start_service: Any
) -> None:
    stub = await start_service(vllm.base_url)
    finished_before = await metric(vllm, "request_success_total")
    long = pb.Sampling(temperature=1.0, seed=1, max_tokens=4096)
    call = asyncio.ensure_future(stub.NextAction(make_request(1, sampling=long), timeout=150))
    await running(vllm, 1)
    call.cancel()
    await running(vllm, 0)
    # It left without having been finished.
    assert await metric(vllm, "request_success_total") == finished_before


async def running(vllm: EmbeddedVllm, count: int) -> None:
    while await metric(vllm, "num_requests_running") != count:
        await asyncio.sleep(0.05)


async def metric(vllm: EmbeddedVllm, name: str) -> float:
    async with httpx.AsyncClient() as client:
        page = (await client.get(vllm.base_url.removesuffix("/v1") + "/metrics")).text
    lines = (line for line in page.splitlines() if line.startswith(f"vllm:{name}{{"))
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)
