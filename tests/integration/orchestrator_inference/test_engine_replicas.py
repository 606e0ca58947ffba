"""Single replicas are asked what they say of given tokens."""

import httpx
import pytest

from orchestrator_inference.engine.replicas import EngineReplica
from podium_kit.policy_versions import CanaryPrompt
from podium_kit.policy_versions.canary import PROMPTS
from unit.podium_training.grpo.builders import make_model
from vllm_server import BASE, VllmServer


async def test_a_canary_of_many_tokens_is_asked_in_parts() -> None:
    prompts = [
        CanaryPrompt(
            prompt_ids=(1, 2),
            next_ids=tuple(range(10 * number, 10 * number + 10)),
            logprobs=(-1.0,) * 10,
        )
        for number in range(PROMPTS)
    ]
    with VllmServer(make_model(vocabulary=10 * PROMPTS)) as server:
        async with httpx.AsyncClient(trust_env=False, timeout=None, verify=False) as client:
            replica = EngineReplica(client, server.base_url, 60)
            said = await replica.logprobs(BASE, prompts)
            alone = [await replica.logprobs(BASE, [prompt]) for prompt in prompts]
    for row, (by_itself,) in zip(said, alone, strict=True):
        assert row == pytest.approx(by_itself, abs=1e-5)
