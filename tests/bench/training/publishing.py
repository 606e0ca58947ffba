"""From a trained adapter to the first token of the policy in vLLM, canary included."""

import time
from pathlib import Path
from statistics import median

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from bench.figures import Figures
from orchestrator_inference.engine.client import engine_client
from orchestrator_inference.engine.replicas import EngineReplica
from orchestrator_inference.versions.admission import AdmissionRules, VersionAdmission
from podium_kit.embedded.smollm2 import SmolLM2
from podium_kit.policy_versions import Format, VersionStore
from podium_kit.policy_versions.reports import read_report
from podium_training.grpo.publishing import Publisher, base_digest

VERSIONS = 8
RANK = 16


def trained(step: int) -> PeftModel:
    base = AutoModelForCausalLM.from_pretrained(SmolLM2().directory, dtype=torch.float32)
    layers = ["q_proj", "k_proj", "v_proj", "o_proj"]
    model = get_peft_model(base, LoraConfig(r=RANK, lora_alpha=16, target_modules=layers)).eval()
    draw = torch.Generator().manual_seed(step)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "lora_B" in name:
                value.copy_(torch.randn(value.shape, generator=draw) * 0.01)
    return model


async def measure_publishing(figures: Figures, folder: Path, engine_url: str) -> None:
    seconds = await _seconds(folder, engine_url)
    for part, values in seconds.items():
        figures.note(f"publishing.{part}_s", {"median": median(values), "worst": max(values)})
    figures.ratio("publishing.first_token_s", median(seconds["first_token"]), "<=", 5.0)


async def _seconds(folder: Path, engine_url: str) -> dict[str, list[float]]:
    tokenizer = AutoTokenizer.from_pretrained(SmolLM2().directory)
    store = VersionStore(folder)
    publisher = Publisher(store, "bench", base_digest(SmolLM2().directory), tokenizer)
    seconds: dict[str, list[float]] = {"written": [], "admitted": [], "first_token": []}
    async with engine_client(engine_url, None, 4) as client:
        replica = EngineReplica(client, engine_url, timeout_s=600)

        async def adapters() -> list[EngineReplica]:
            return [replica]

        async def merged() -> list[EngineReplica]:
            return []

        sides = {Format.ADAPTER: adapters, Format.MERGED: merged}
        admission = VersionAdmission(store, sides, AdmissionRules(str(folder)), {})
        for step in range(1, VERSIONS + 1):
            model = trained(step)
            started = time.perf_counter()
            name = publisher.publish(model, step, {}).name
            seconds["written"].append(time.perf_counter() - started)
            await admission.reconcile()
            if name not in admission.admitted:
                raise RuntimeError(f"{name} was not admitted: {read_report(folder, name)}")
            seconds["admitted"].append(time.perf_counter() - started)
            body = {"model": name, "prompt": "What is 2 + 2?", "max_tokens": 1}
            reply = await client.send("POST", "completions", body)
            if not reply.is_success:
                raise RuntimeError(reply.text)
            seconds["first_token"].append(time.perf_counter() - started)
    return seconds
