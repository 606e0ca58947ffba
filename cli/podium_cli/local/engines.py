"""Which model orchestrates: SmolLM2 in an embedded vLLM, another folder, another server."""

from dataclasses import dataclass
from pathlib import Path

from embedded import EmbeddedVllm, SmolLM2
from podium_cli.local.services import Engine

SMOLLM2_NAME = "smollm2-135m-instruct"


@dataclass(frozen=True)
class EngineChoice:
    """The model folder for the embedded vLLM, or the URL of a server that runs already."""

    model_dir: Path | None = None
    openai_base_url: str = ""
    openai_api_key: str = ""
    model: str = ""


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
        )
        return LocalEngine(engine, None)
    directory = choice.model_dir or SmolLM2().directory
    name = choice.model or (directory.name if choice.model_dir else SMOLLM2_NAME)
    server = EmbeddedVllm(directory, name, port, log_path=logs / "vllm.log")
    return LocalEngine(Engine(server.base_url, name, f"orchestrator/{name}"), server)
