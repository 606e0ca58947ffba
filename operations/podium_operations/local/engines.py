import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import httpx

from podium_kit.bundled_files import bundled_folder
from podium_kit.client.errors import UserError
from podium_kit.embedded.smollm2 import SmolLM2
from podium_kit.embedded.vllm.adapted_model import AdaptedModel
from podium_kit.embedded.vllm.server import EmbeddedVllm
from podium_kit.policy_versions import VersionStore
from podium_operations.local.services import Engine

UNTRAINED_NAME, TRAINED_NAME = "smollm2-135m-instruct", "smollm2-135m-podium"
# That of the bundled policy: every adapter is computed as if it had the highest rank.
ADAPTER_RANK_MAX = 32


@dataclass(frozen=True)
class EngineChoice:
    model_dir: Path | None = None
    openai_base_url: str = ""
    openai_api_key: str = ""
    model: str = ""
    policy_store: Path | None = None
    """Folder of trained versions, which the engine must see, too."""
    prompt_mode: str = ""
    """Form of the prompts where an episode names none; empty means stateless."""
    untrained: bool = False
    """The default model as its makers left it."""

    @property
    def is_default(self) -> bool:
        return self.model_dir is None and not self.openai_base_url

    @property
    def serves_trained(self) -> bool:
        """Versions of a store adapt the untrained model, so that one is served beside them."""
        return self.is_default and not self.untrained and self.policy_store is None


@dataclass(frozen=True)
class LocalEngine:
    address: Engine
    server: EmbeddedVllm | None


def trained_model() -> AdaptedModel:
    store = VersionStore(bundled_folder() / "policy")
    [name] = store.names()
    manifest = store.verified(str(name))
    return AdaptedModel(TRAINED_NAME, store.path(manifest.name))


def make_engine(choice: EngineChoice, port: int, logs: Path) -> LocalEngine:
    if choice.openai_base_url:
        engine = Engine(
            choice.openai_base_url,
            choice.model,
            f"orchestrator/{choice.model}",
            choice.openai_api_key,
            policy_store=choice.policy_store,
            prompt_mode=choice.prompt_mode,
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
        prompt_mode=choice.prompt_mode,
    )
    return LocalEngine(engine, server)


def _served(choice: EngineChoice) -> tuple[Path, str]:
    if choice.model_dir is not None:
        return choice.model_dir, choice.model or choice.model_dir.name
    if choice.serves_trained:
        return trained_model().directory, TRAINED_NAME
    return SmolLM2().directory, UNTRAINED_NAME


TIMEOUT_S = 10.0
PAUSE_S = 0.5
# A server that was started a moment ago loads its model first.
STARTING_S = 90.0


async def check_engine(choice: EngineChoice, note: Callable[[str], None]) -> None:
    """Waits for the server of --openai-base-url; `note` gets a line when it does not answer yet.

    Raises UserError when it does not answer in 90 s, or does not serve the model.
    """
    served = await _served_models(choice, note)
    if choice.model not in served:
        near = get_close_matches(choice.model, served) or served[:5]
        fix = f"use --openai-model {' or '.join(near)}" if near else "check --openai-model"
        raise UserError(f"{choice.openai_base_url} serves no model {choice.model!r}", fix)


async def _served_models(choice: EngineChoice, note: Callable[[str], None]) -> list[str]:
    url = f"{choice.openai_base_url.rstrip('/')}/models"
    headers = {"authorization": f"Bearer {choice.openai_api_key}"} if choice.openai_api_key else {}
    try:
        reply = await _answer(url, headers, note)
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise UserError(
            f"no model server answered at {url} within {STARTING_S:.0f} s ({type(error).__name__})",
            "start the server, or check --openai-base-url; it ends with /v1",
        ) from error
    if reply.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise UserError(f"{url} rejects the API key", "check --openai-api-key or OPENAI_API_KEY")
    try:
        return [str(model["id"]) for model in reply.json()["data"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{url} answers HTTP {reply.status_code} and no list of models",
            "check --openai-base-url; it ends with /v1",
        ) from error


async def _answer(url: str, headers: dict[str, str], note: Callable[[str], None]) -> httpx.Response:
    ends = time.monotonic() + STARTING_S
    noted = False
    async with httpx.AsyncClient(timeout=TIMEOUT_S, headers=headers) as client:
        while True:
            is_over = time.monotonic() > ends
            try:
                reply = await client.get(url)
                if reply.status_code != httpx.codes.SERVICE_UNAVAILABLE or is_over:
                    return reply
            except (httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError):
                if is_over:
                    raise
            if not noted:
                note(f"waiting for the model server at {url}, for {STARTING_S:.0f} s at most")
                noted = True
            await asyncio.sleep(PAUSE_S)
