"""Starting the platform as `podium up` and `podium demo` do: what their options mean.

Slow to import: it brings everything that a platform is made of.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from podium_cli.inputs import parse_prompt_mode
from podium_cli.up.installation import ensure_engine_installed
from podium_cli.up.running import running_platform
from podium_kit.client.errors import UsageError
from podium_operations.local.engines import EngineChoice
from podium_operations.local.platform import PlatformOptions

__all__ = [
    "EngineChoice",
    "PlatformOptions",
    "allowing",
    "engine_choice",
    "ensure_engine_installed",
    "running_platform",
    "up_arguments",
    "with_policy_store",
    "with_prompt_mode",
]
ALLOWED_HOSTS_VARIABLE = "TOOL_ADAPTERS_ALLOWED_HOSTS"


def engine_choice(
    model: Path | None,
    untrained: bool,
    openai_base_url: str,
    openai_api_key: str,
    openai_model: str,
) -> EngineChoice:
    given = {
        "--model": model is not None,
        "--untrained": untrained,
        "--openai-base-url": bool(openai_base_url),
    }
    if len(chosen := [option for option, is_given in given.items() if is_given]) > 1:
        raise UsageError(f"{' and '.join(chosen)} are {len(chosen)} engines", "give one of them")
    if not openai_base_url:
        return EngineChoice(model_dir=model, untrained=untrained)
    if not openai_model:
        raise UsageError(f"no model named for {openai_base_url}", "give --openai-model")
    return EngineChoice(None, openai_base_url, openai_api_key, openai_model)


def with_policy_store(choice: EngineChoice, folder: Path | None) -> EngineChoice:
    if folder is None:
        return choice
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}", "name a folder") from error
    # The services and the engine run in folders of their own.
    return replace(choice, policy_store=folder.resolve())


def with_prompt_mode(choice: EngineChoice, mode: str) -> EngineChoice:
    parse_prompt_mode(mode)
    return replace(choice, prompt_mode=mode)


def allowing(hosts: Sequence[str]) -> dict[str, dict[str, str]]:
    """Settings with which a tenant's tools reach these hosts, and those of the environment."""
    if not hosts:
        return {}
    for host in hosts:
        if "/" in host or not host.strip():
            raise UsageError(f"{host!r} is no host", "give a name or an address, like 127.0.0.1")
    before = json.loads(os.environ.get(ALLOWED_HOSTS_VARIABLE, "[]"))
    return {"tool_adapters": {"allowed_hosts": json.dumps([*before, *hosts])}}


def up_arguments(
    state_dir: Path, choice: EngineChoice, port: int | None = None, hosts: Sequence[str] = ()
) -> list[str]:
    """The command line of a platform in the background; secrets stay out of it."""
    options = {
        "--state-dir": state_dir,
        "--model": choice.model_dir,
        "--openai-base-url": choice.openai_base_url,
        "--openai-model": choice.model,
        "--prompt-mode": choice.prompt_mode,
        "--policy-store": choice.policy_store,
        "--port": port,
    }
    words = [str(word) for pair in options.items() if pair[1] for word in pair]
    words += [word for host in hosts for word in ("--allow-host", host)]
    return [*words, "--untrained"] if choice.untrained else words
