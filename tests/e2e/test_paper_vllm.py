"""The checkpoint's architecture, tokens and template on the real vLLM, by a model of one reply."""

import json
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from builders.tiny_qwen3 import write_tiny_qwen3
from e2e.episodes_over_http import finished, start, trajectory
from e2e.test_paper import MODEL, SETTINGS, SOLUTION, SOLVER, TASK, TOOLS, client_of, fill
from integration.tool_adapters.providers.test_provider_matrix import answering
from local_platforms import local_platform
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.vllm.server import EmbeddedVllm
from temporary_files import server_folder

pytestmark = pytest.mark.vllm

CALL = {"name": "answer", "arguments": {"model": SOLVER.alias}}
THOUGHT = "\nNext is answer.\n"
MARKS = ("<think>", THOUGHT, "</think>", "\n\n", "<tool_call>")
REPLY = (*MARKS, f"\n{json.dumps(CALL)}\n", "</tool_call>")
# As docs/paper.md starts the checkpoint.
PARSERS = (
    "--enable-auto-tool-choice",
    "--tool-call-parser",
    "hermes",
    "--reasoning-parser",
    "qwen3",
)


@pytest_asyncio.fixture(scope="module", params=[(), PARSERS], ids=["bare", "with parsers"])
async def vllm(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[EmbeddedVllm]:
    folder = tmp_path_factory.mktemp("qwen3")
    model = write_tiny_qwen3(folder / "model", REPLY)
    server = EmbeddedVllm(
        model, MODEL, free_port(), log_path=folder / "vllm.log", extra_args=request.param
    )
    await server.start()
    yield server
    await server.stop()


async def test_the_platform_serves_an_episode_by_the_models_own_template(
    vllm: EmbeddedVllm,
) -> None:
    with server_folder("paper-vllm") as folder:
        async with (
            answering(SOLVER.replies[0]) as expert,
            local_platform(
                folder, vllm.base_url, MODEL, prompt_mode="template", settings=SETTINGS
            ) as (_, connection),
        ):
            await fill(connection, {SOLVER.alias: expert})
            async with client_of(connection, connection.api_key) as client:
                episode_id = await start(
                    client,
                    TASK,
                    tool_names=TOOLS,
                    policy="paper",
                    sampling={"temperature": 0.0, "max_tokens": 256},
                )
                ended = await finished(client, episode_id)
                [turn] = (await trajectory(client, episode_id))["turns"]
    assert (ended["stop_reason"], ended["answer"]) == ("STOP_REASON_ANSWERED", SOLUTION)
    decided = turn["model_call"]["response"]
    assert decided["action"]["thought"] == THOUGHT.strip()
    # What training needs: every sampled token, the thought's included.
    assert len(decided["completion_token_ids"]) == len(decided["completion_logprobs"])
    assert len(decided["completion_token_ids"]) == len(REPLY) + 1
    amounts = {each["dimension"]: each["amount"] for each in decided["usage"]["quantities"]}
    # An engine that parses thoughts counts their tokens apart.
    written = ("USAGE_DIMENSION_OUTPUT_TEXT", "USAGE_DIMENSION_REASONING")
    assert sum(int(amounts.get(each, "0")) for each in written) == len(REPLY) + 1


@pytest.mark.parametrize("vllm", [PARSERS], ids=["with parsers"], indirect=True)
async def test_the_engines_own_parsers_read_the_reply_as_the_platform_does(
    vllm: EmbeddedVllm,
) -> None:
    function = {"name": "answer", "parameters": {"type": "object", "properties": {}}}
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": TASK}],
        "tools": [{"type": "function", "function": function}],
        "temperature": 0,
        "max_tokens": 256,
    }
    async with httpx.AsyncClient(timeout=120) as client:
        reply = await client.post(f"{vllm.base_url}/chat/completions", json=body)
    message = reply.json()["choices"][0]["message"]
    [call] = message["tool_calls"]
    assert call["function"]["name"] == CALL["name"]
    assert json.loads(call["function"]["arguments"]) == CALL["arguments"]
    assert message["reasoning"].strip() == THOUGHT.strip()
