"""The real vLLM server with SmolLM2."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import psutil
import pytest
import pytest_asyncio

from podium_kit.embedded.command import foreign_environment
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.smollm2 import SmolLM2
from podium_kit.embedded.vllm.environment import VllmEnvironment
from podium_kit.embedded.vllm.server import INSIDE, EmbeddedVllm

pytestmark = pytest.mark.vllm

MODEL = "smollm2-135m-instruct"
KEY = "only ours"
OURS = {"Authorization": f"Bearer {KEY}"}
TOOL_CALL = {
    "type": "object",
    "properties": {
        "tool": {"enum": ["calculator", "dictionary"]},
        "argument": {"type": "string", "maxLength": 20},
    },
    "required": ["tool", "argument"],
    "additionalProperties": False,
}


def new_server(folder: Path) -> EmbeddedVllm:
    log_path = folder / "vllm.log"
    return EmbeddedVllm(SmolLM2().directory, MODEL, free_port(), log_path=log_path, api_key=KEY)


@pytest_asyncio.fixture(scope="module")
async def vllm(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedVllm]:
    server = new_server(tmp_path_factory.mktemp("vllm"))
    await server.start()
    yield server
    await server.stop()


async def complete(vllm: EmbeddedVllm, task: str, **options: Any) -> dict[str, Any]:
    request = {
        "model": MODEL,
        "messages": [{"role": "user", "content": task}],
        "temperature": 1.0,
        "max_tokens": 64,
        **options,
    }
    async with httpx.AsyncClient(timeout=120, headers=OURS) as client:
        response = await client.post(f"{vllm.base_url}/chat/completions", json=request)
    response.raise_for_status()
    completion: dict[str, Any] = response.json()
    return completion


async def call_tool(vllm: EmbeddedVllm, task: str) -> dict[str, Any]:
    schema = {"name": "tool_call", "schema": TOOL_CALL, "strict": True}
    return await complete(
        vllm,
        task,
        response_format={"type": "json_schema", "json_schema": schema},
        return_token_ids=True,
        logprobs=True,
    )


async def test_a_seed_and_a_prompt_longer_than_a_batch_do_not_end_the_engine(
    vllm: EmbeddedVllm,
) -> None:
    long = "Repeat: " + "seventeen apples " * 1500
    first, again = [await complete(vllm, long, seed=7, max_tokens=4) for _ in range(2)]
    assert first["usage"]["prompt_tokens"] > 2048
    assert again["usage"]["completion_tokens"] > 0
    assert await vllm.answers()


async def test_an_answer_obeys_the_schema_without_whitespace(vllm: EmbeddedVllm) -> None:
    completion = await call_tool(vllm, "What is 17 * 23?")
    content = completion["choices"][0]["message"]["content"]
    call = json.loads(content)
    jsonschema.validate(call, TOOL_CALL)
    assert content.startswith('{"tool":"')
    assert '","argument":"' in content


async def test_an_answer_carries_its_token_ids_and_logprobs(vllm: EmbeddedVllm) -> None:
    completion = await call_tool(vllm, "What does serendipity mean?")
    choice = completion["choices"][0]
    assert len(choice["token_ids"]) == completion["usage"]["completion_tokens"]
    assert len(completion["prompt_token_ids"]) == completion["usage"]["prompt_tokens"]
    assert len(choice["logprobs"]["content"]) == len(choice["token_ids"])
    assert all(token["logprob"] <= 0 for token in choice["logprobs"]["content"])


async def test_a_turn_ends_by_the_end_of_turn_token(vllm: EmbeddedVllm) -> None:
    # In few words: which ones the model finds likeliest depends on the precision of the CPU.
    task = "What is the capital of France? Answer in one word."
    completion = await complete(vllm, task, temperature=0.0)
    assert completion["choices"][0]["finish_reason"] == "stop"
    assert "Paris" in completion["choices"][0]["message"]["content"]


async def test_eight_requests_in_flight_all_get_valid_calls(vllm: EmbeddedVllm) -> None:
    completions = await asyncio.gather(
        *(call_tool(vllm, f"What is {number} + {number}?") for number in range(8))
    )
    for completion in completions:
        jsonschema.validate(json.loads(completion["choices"][0]["message"]["content"]), TOOL_CALL)


async def test_nobody_completes_or_changes_anything_without_the_key(vllm: EmbeddedVllm) -> None:
    ask = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    origin = vllm.base_url.removesuffix("/v1")
    async with httpx.AsyncClient(base_url=origin, timeout=120) as stranger:
        for path in ("/v1/chat/completions", "/invocations", "/tokenize", "/v1/load_lora_adapter"):
            assert (await stranger.post(path, json=ask)).status_code == 401, path
        for path in ("/v1/models", "/metrics", "/version", "/openapi.json"):
            assert (await stranger.get(path)).status_code == 401, path
        # Beside vLLM's own door, which asks for the key elsewhere.
        assert (await stranger.post("/invocations", json=ask, headers=OURS)).is_success


async def test_the_key_is_no_argument_that_others_could_read(vllm: EmbeddedVllm) -> None:
    assert KEY not in " ".join(psutil.Process(vllm.process.pid).cmdline())


async def test_nothing_is_left_running_after_kill(tmp_path: Path) -> None:
    vllm = new_server(tmp_path)
    await vllm.start()
    engine = psutil.Process(vllm.process.pid).children(recursive=True)
    await vllm.kill()
    _, alive = psutil.wait_procs(engine, timeout=10)
    assert engine
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
    assert not await vllm.answers()


LORA_PROGRAM = Path(__file__).with_name("lora_program.py")


def test_each_token_has_its_own_adapter_or_none() -> None:
    argv = [VllmEnvironment().python, LORA_PROGRAM]
    environment = foreign_environment() | {"PYTHONPATH": str(INSIDE)}
    ran = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    differences = [float(line) for line in ran.stdout.splitlines()]
    assert len(differences) == 5
    assert max(differences) < 1e-4
