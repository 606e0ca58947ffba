"""Programs that run inside vLLM's environment."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from podium_kit.embedded.vllm.adapter_merge import main
from podium_kit.embedded.vllm.server import INSIDE, KEY_GUARD
from unit.podium_training.grpo.builders import make_model

PROMPT = torch.tensor([[5, 6, 7, 8]])


def logits(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(PROMPT).logits
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_merged_model_computes_what_the_adapted_one_computes(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    base, adapter, target = (tmp_path / name for name in ("base", "adapter", "target"))
    model = make_model()
    model.save_pretrained(base)
    before = logits(model)
    options = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
    adapted = get_peft_model(model, options).eval()
    with torch.no_grad():
        for value in adapted.parameters():
            if value.requires_grad:
                value.copy_((torch.randn(value.shape) * 0.2).to(dtype))
    expected = logits(adapted)
    adapted.to(dtype).save_pretrained(str(adapter))
    main(base, adapter, target)
    merged = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32)
    assert torch.allclose(logits(merged), expected, atol=1e-5)
    assert not torch.allclose(before, expected, atol=1e-2)


PATHS = ("/v1/chat/completions", "/invocations", "/tokenize", "/v1/load_lora_adapter", "/metrics")


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("VLLM_API_KEY", "right")
    module, name = KEY_GUARD.split(".")
    return getattr(loaded(module), name)(served)


def loaded(module: str) -> ModuleType:
    """From its file alone, as vLLM's Python finds it."""
    spec = importlib.util.spec_from_file_location(module, INSIDE / f"{module}.py")
    assert spec and spec.loader
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


async def served(scope: Any, receive: Any, send: Any) -> None:
    del receive
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


async def status(guarded: Any, method: str, path: str, authorization: str = "") -> int:
    headers = {"Authorization": authorization} if authorization else {}
    transport = httpx.ASGITransport(app=guarded)
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        return (await client.request(method, path, headers=headers)).status_code


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
async def test_no_path_is_open_without_the_key(guarded: Any, method: str, path: str) -> None:
    for shown in ("", "right", "Bearer", "Bearer wrong", "Bearer rightly", "Basic right"):
        assert await status(guarded, method, path, shown) == 401, shown
    assert await status(guarded, method, path, "Bearer right") == 200


async def test_its_health_is_nobodys_secret(guarded: Any) -> None:
    assert await status(guarded, "GET", "/health") == 200
    assert await status(guarded, "GET", "/health/../invocations") == 401


async def test_a_web_socket_is_closed(guarded: Any) -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await guarded({"type": "websocket", "path": "/v1/realtime", "headers": []}, None, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]
