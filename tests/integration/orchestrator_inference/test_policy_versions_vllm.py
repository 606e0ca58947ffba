from collections.abc import AsyncIterator, Sequence
from statistics import fmean

import pytest
import pytest_asyncio
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from orchestrator_inference.engine.client import EngineClient, engine_client
from orchestrator_inference.engine.replicas import EngineReplica
from orchestrator_inference.versions.admission import AdmissionRules, VersionAdmission
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.smollm2 import SmolLM2
from podium_kit.embedded.vllm.server import EmbeddedVllm
from podium_kit.policy_versions import Canary, CanaryPrompt, Format, VersionStore, canary_fault
from podium_kit.policy_versions.reports import read_report
from podium_training.grpo.canary import record_canary
from podium_training.grpo.publishing import Publisher, base_digest

pytestmark = pytest.mark.vllm

MERGED, ADAPTER = "policy-merged-v1", "policy-adapter-v2"
# float32 on both sides: 5e-6 was measured, so that another policy cannot pass for noise.
TOLERANCE_NATS = 1e-3
FLOAT32 = ("--dtype", "float32")


def changed(model: PreTrainedModel, marker: str, size: float, seed: int) -> PreTrainedModel:
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if marker in name:
                value.add_(torch.randn(value.shape, generator=draw) * size)
    return model


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> VersionStore:
    store = VersionStore(tmp_path_factory.mktemp("store"))
    folder = SmolLM2().directory
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    merged = changed(model, "o_proj", 0.02, seed=1)
    Publisher(store, "merged", base_digest(folder), tokenizer).publish(merged, 1, {0: 8})
    config = LoraConfig(r=8, lora_alpha=8, target_modules=["q_proj", "v_proj"])
    adapted = changed(get_peft_model(merged, config).eval(), "lora_B", 0.05, seed=2)
    base = base_digest(store.path(MERGED))
    Publisher(store, "adapter", base, tokenizer).publish(adapted, 2, {0: 16})
    return store


@pytest_asyncio.fixture(scope="module")
async def vllm(
    store: VersionStore, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[EmbeddedVllm]:
    log_path = tmp_path_factory.mktemp("vllm") / "vllm.log"
    server = EmbeddedVllm(
        store.path(MERGED),
        MERGED,
        free_port(),
        log_path=log_path,
        adapter_rank_max=8,
        extra_args=FLOAT32,
    )
    await server.start()
    yield server
    await server.stop()


class RecordingReplica(EngineReplica):
    def __init__(self, client: EngineClient, base_url: str, timeout_s: float) -> None:
        super().__init__(client, base_url, timeout_s)
        self.said: dict[str, list[list[float]]] = {}

    async def logprobs(self, name: str, prompts: Sequence[CanaryPrompt]) -> list[list[float]]:
        self.said[name] = await super().logprobs(name, prompts)
        return self.said[name]


def distance(one: list[list[float]], other: Canary) -> float:
    pairs = zip(one, other.logprobs, strict=True)
    return fmean(abs(a - b) for x, y in pairs for a, b in zip(x, y, strict=True))


@pytest.mark.timeout(900)
async def test_vllm_computes_for_each_published_version_what_its_trainer_computed(
    store: VersionStore, vllm: EmbeddedVllm
) -> None:
    async with engine_client(vllm.base_url, None, 4) as client:
        replica = RecordingReplica(client, vllm.base_url, timeout_s=600)

        async def replicas() -> list[EngineReplica]:
            return [replica]

        admission = VersionAdmission(
            store,
            {Format.ADAPTER: replicas, Format.MERGED: replicas},
            AdmissionRules(str(store.root), tolerance_nats=TOLERANCE_NATS),
            {},
        )
        await admission.reconcile()
    assert admission.admitted == {MERGED, ADAPTER}, read_report(store.root, ADAPTER)
    said = replica.said
    own = {name: store.manifest(name).canary for name in (MERGED, ADAPTER)}
    folder = SmolLM2().directory
    untrained = record_canary(
        AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval(),
        AutoTokenizer.from_pretrained(folder),
    )
    for name, other in ((MERGED, ADAPTER), (ADAPTER, MERGED)):
        assert distance(said[name], own[name]) < TOLERANCE_NATS / 10
        # Changed for good: neither the model before training nor the other version.
        assert distance(said[name], untrained) > 10 * TOLERANCE_NATS
        assert canary_fault(said[name], own[other], [], TOLERANCE_NATS) is not None
