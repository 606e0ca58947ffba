"""Which model orchestrates: the trained SmolLM2 in an embedded vLLM, another folder or server."""

import secrets
from dataclasses import dataclass
from pathlib import Path

from podium_cli.local.services import Engine
from podium_kit.bundled_files import bundled_folder
from podium_kit.embedded.smollm2 import SmolLM2
from podium_kit.embedded.vllm.adapted_model import AdaptedModel
from podium_kit.embedded.vllm.server import EmbeddedVllm
from podium_kit.policy_versions import VersionStore

UNTRAINED_NAME, TRAINED_NAME = "smollm2-135m-instruct", "smollm2-135m-podium"
# That of the bundled policy: every adapter is computed as if it had the highest rank.
ADAPTER_RANK_MAX = 32


@dataclass(frozen=True)
class EngineChoice:
    """The model folder for the embedded vLLM, or the URL of a server that runs already."""

    model_dir: Path | None = None
    openai_base_url: str = ""
    openai_api_key: str = ""
    model: str = ""
    policy_store: Path | None = None
    """Folder of trained versions, which the engine must see, too."""
    untrained: bool = False
    """The default model as its makers left it."""

    @property
    def is_default(self) -> bool:
        """Whether it is the default model, trained or not."""
        return self.model_dir is None and not self.openai_base_url

    @property
    def serves_trained(self) -> bool:
        """Versions of a store adapt the untrained model, so that one is served beside them."""
        return self.is_default and not self.untrained and self.policy_store is None


@dataclass(frozen=True)
class LocalEngine:
    """The engine's address, and its server when it is ours to run."""

    address: Engine
    server: EmbeddedVllm | None


def trained_model() -> AdaptedModel:
    """The bundled policy merged into the default model. Raises ArtifactRejected."""
    store = VersionStore(bundled_folder() / "policy")
    [name] = store.names()
    manifest = store.verified(str(name))
    return AdaptedModel(TRAINED_NAME, store.path(manifest.name))


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
    directory, name = _served(choice)
    rank_max = ADAPTER_RANK_MAX if choice.policy_store else 0
    key = secrets.token_urlsafe(32)
    server = EmbeddedVllm(
        directory,
        name,
        port,
        log_path=logs / "vllm.log",
        adapter_rank_max=rank_max,
        api_key=key,
    )
    engine = Engine(
        server.base_url,
        name,
        f"orchestrator/{name}",
        key,
        policy_store=choice.policy_store,
        is_bundled=choice.is_default,
    )
    return LocalEngine(engine, server)


def _served(choice: EngineChoice) -> tuple[Path, str]:
    """The model's folder and the name it is served and priced under."""
    if choice.model_dir is not None:
        return choice.model_dir, choice.model or choice.model_dir.name
    if choice.serves_trained:
        return trained_model().directory, TRAINED_NAME
    return SmolLM2().directory, UNTRAINED_NAME
