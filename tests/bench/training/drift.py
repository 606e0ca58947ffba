import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import yaml
from torch import Tensor
from transformers import AutoTokenizer

from bench.figures import Figures
from callers import client_channel, make_identity, make_key_pair, write_verify_keys
from orchestrator_inference.config import OrchestratorInferenceSettings
from orchestrator_inference.server import assembled
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.orchestrator.v1.orchestrator_service_pb2_grpc import OrchestratorServiceStub
from podium_kit.bundled_files import bundled_folder
from podium_kit.embedded.smollm2 import SmolLM2
from podium_kit.rpc.server import running_server
from podium_training.grpo.model.forward import Distribution, token_logprobs
from podium_training.grpo.model.grammar import Constraint, GrammarReplay
from podium_training.grpo.model.policy import load_policy
from podium_training.grpo.model.samples import Row
from podium_training.grpo.model.trie import pack

if TYPE_CHECKING:
    # Only the stubs know the asynchronous face of a stub.
    from podium.orchestrator.v1.orchestrator_service_pb2_grpc import OrchestratorServiceAsyncStub

TOOLS = ("calculator", "convert_units", "days_between", "dictionary")
TASKS = (
    "What is 17 percent of 2340?",
    "How many days are between 27 February and 2 March 2024?",
    "Convert 26.2 miles to kilometres.",
)
SEEDS = 8
MAX_TOKENS = 64
TIMEOUT_S = 300
# Nats a token: what is above is no noise of number formats (the trainer's alarm).
NOISE = 0.1


@dataclass(frozen=True)
class Drift:
    """Differences between the trainer's and the engine's log-probabilities, in nats."""

    mean: float
    p99: float
    largest: float
    sequence: float
    """Mean over sequences of the sum over their tokens: how wrong a sequence's ratio is."""

    @classmethod
    def of(cls, differences: Sequence[Tensor]) -> "Drift":
        """From one (tokens,) tensor for each sequence."""
        each = torch.cat(list(differences)).abs()
        sums = torch.stack([found.abs().sum() for found in differences])
        largest, p99 = each.max(), each.quantile(0.99)
        return cls(each.mean().item(), p99.item(), largest.item(), sums.mean().item())


async def measure_drift(figures: Figures, folder: Path, engine_url: str, model: str) -> None:
    async with _service(folder, engine_url, model) as stub:
        asked = [_request(task, seed) for task in TASKS for seed in range(SEEDS)]
        # vLLM opens no connection while it compiles its first grammar.
        first = await stub.NextAction(asked[0], timeout=TIMEOUT_S)
        answers = [first] + await asyncio.gather(
            *(stub.NextAction(each, timeout=TIMEOUT_S) for each in asked[1:])
        )
    replayed, whole = await asyncio.to_thread(_computed_again, answers)
    figures.note("drift.grammar_replayed", asdict(replayed))
    figures.note("drift.whole_vocabulary", asdict(whole))
    figures.note("drift.tokens", sum(len(each.completion_token_ids) for each in answers))
    figures.ratio("training.drift_nats_a_token", replayed.mean, "<=", NOISE)
    figures.ratio("training.drift_without_replay", whole.mean / replayed.mean, ">=", 10)


@torch.no_grad()
def _computed_again(answers: Sequence[pb.NextActionResponse]) -> tuple[Drift, Drift]:
    """With the grammar replayed, and over the whole vocabulary as if there had been none."""
    folder = SmolLM2().directory
    policy = load_policy(folder, None)
    replay = GrammarReplay(AutoTokenizer.from_pretrained(folder), policy.config.vocab_size)
    differences: tuple[list[Tensor], list[Tensor]] = ([], [])
    for answer in answers:
        row = Row(
            tuple(answer.prompt_token_ids),
            tuple(answer.completion_token_ids),
            tuple(answer.completion_logprobs),
            answer.sampling.temperature,
            answer.constraint_digest,
        )
        recorded = Constraint.recorded(answer.constraint_json_schema, answer.constraint_digest)
        temperature = torch.full((len(row.completion_ids),), row.temperature)
        grammars = (replay.legal(recorded, row.completion_ids), None)
        for found, legal in zip(differences, grammars, strict=True):
            logprobs = token_logprobs(policy, pack([row]), Distribution(temperature, legal))
            found.append(logprobs - torch.tensor(row.inference_logprobs))
    replayed, whole = differences
    return Drift.of(replayed), Drift.of(whole)


@asynccontextmanager
async def _service(
    folder: Path, engine_url: str, model: str
) -> AsyncIterator["OrchestratorServiceAsyncStub"]:
    pair = make_key_pair()
    settings = OrchestratorInferenceSettings(
        port=0,
        verify_keys_file=write_verify_keys(folder / "keys.json", [pair]),
        engine_base_url=engine_url,
        default_model=model,
        drain_grace_s=0,
    )
    async with (
        assembled(settings) as served,
        running_server(settings, *served) as port,
        client_channel(port, make_identity(), pair) as channel,
    ):
        yield OrchestratorServiceStub(channel)


def _request(task: str, seed: int) -> pb.NextActionRequest:
    files = (bundled_folder() / "tools" / f"{name}.yaml" for name in TOOLS)
    specs = [yaml.safe_load(path.read_text()) for path in files]
    return pb.NextActionRequest(
        key=f"drift/{seed}/model/0",
        task=task,
        tools=[
            pb.ToolDefinition(
                name=spec["name"],
                description=spec["description"],
                parameters_json_schema=spec["parametersJsonSchema"],
            )
            for spec in specs
        ],
        sampling=pb.Sampling(temperature=1.0, top_p=1.0, seed=seed, max_tokens=MAX_TOKENS),
    )
