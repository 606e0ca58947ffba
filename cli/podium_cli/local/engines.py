"""Which model orchestrates: SmolLM2 in an embedded vLLM, another folder, another server."""

from dataclasses import dataclass
from pathlib import Path

from embedded import EmbeddedVllm, SmolLM2
from podium_cli.local.services import Engine

SMOLLM2_NAME = "smollm2-135m-instruct"
# vLLM's CPU kernels compute as if every adapter had it.
ADAPTER_RANK_MAX = 16


@dataclass(frozen=True)
class EngineChoice:
    """The model folder for the embedded vLLM, or the URL of a server that runs already."""

    model_dir: Path | None = None
    openai_base_url: str = ""
    openai_api_key: str = ""
    model: str = ""
    policy_store: Path | None = None
    """Folder of trained versions, which the engine must see, too."""


@dataclass(frozen=True)
class LocalEngine:
    """The engine's address, and its server when it is ours to run."""

    address: Engine
    server: EmbeddedVllm | None


def make_engine(choice: EngineChoice, port: int, logs: Path) -> LocalEngine:
    """The chosen engine. Raises VllmNotInstalled, ModelNotConverted."""
    if choice.openai_base_url:
        engine = Engine(
            choice.openai_base_url,
            choice.model,
            f"orchestrator/{choice.model}",
            choice.openai_api_key,
            policy_store=choice.policy_store,
        )
        return LocalEngine(engine, None)
    directory = choice.model_dir or SmolLM2().directory
    name = choice.model or (directory.name if choice.model_dir else SMOLLM2_NAME)
    rank_max = ADAPTER_RANK_MAX if choice.policy_store else 0
    server = EmbeddedVllm(
        directory, name, port, log_path=logs / "vllm.log", adapter_rank_max=rank_max
    )
    engine = Engine(server.base_url, name, f"orchestrator/{name}", policy_store=choice.policy_store)
    return LocalEngine(engine, server)
