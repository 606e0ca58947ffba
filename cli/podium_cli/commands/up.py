"""`podium up`: the whole platform on this machine, until Ctrl-C."""

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.panel import Panel

from podium_cli.command import Session, command
from podium_cli.local.background import ENGINE_KEY_VARIABLE, start_in_background
from podium_cli.local.engines import EngineChoice
from podium_cli.local.installation import ensure_engine_installed
from podium_cli.local.platform import PlatformOptions
from podium_cli.local.running import running_platform
from podium_cli.local.state import STATE_VARIABLE, Connection, StateFolder, default_state_dir
from podium_cli.output import Output
from podium_kit.client.errors import UsageError

ModelFolder = Annotated[
    Path | None, typer.Option("--model", help="Model folder to serve instead of SmolLM2.")
]
Untrained = Annotated[
    bool, typer.Option("--untrained", help="Serve SmolLM2 as its makers left it.")
]
BaseUrl = Annotated[
    str, typer.Option(help="Use this OpenAI-compatible server instead of vLLM, up to /v1.")
]
EngineKey = Annotated[
    str, typer.Option(envvar=ENGINE_KEY_VARIABLE, help="Its API key.", show_envvar=True)
]
EngineModel = Annotated[str, typer.Option(help="Its model.")]
PolicyStore = Annotated[
    Path | None,
    typer.Option(
        envvar="PODIUM_POLICY_STORE",
        help="Folder of trained versions: the promoted one orchestrates.",
    ),
]
GatewayPort = Annotated[
    int | None, typer.Option("--port", help="Gateway port. [default: a free one, kept]")
]
AssumeYes = Annotated[bool, typer.Option("--yes", "-y", help="Install what is missing unasked.")]


app = typer.Typer(add_completion=False)


@command(app, "up")
async def up(
    session: Session,
    *,
    model: ModelFolder = None,
    untrained: Untrained = False,
    openai_base_url: BaseUrl = "",
    openai_api_key: EngineKey = "",
    openai_model: EngineModel = "",
    policy_store: PolicyStore = None,
    port: GatewayPort = None,
    yes: AssumeYes = False,
    detach: Annotated[bool, typer.Option(help="Keep running in the background.")] = False,
) -> None:
    """Start the platform: databases, workflows, stream, model, services, tools. Ctrl-C stops it."""
    state = session.target.state
    engine = engine_choice(model, untrained, openai_base_url, openai_api_key, openai_model)
    choice = with_policy_store(engine, policy_store)
    await ensure_engine_installed(choice, yes, session.output.progress)
    if detach:
        arguments = up_arguments(state.path, choice, port)
        connection = await start_in_background(
            state, arguments, choice.openai_api_key, session.output
        )
        _announce(session.output, state, connection, "`podium down` stops it")
        return
    options = PlatformOptions(state.path, choice, port)
    with stopping_on_sigterm():
        async with running_platform(options, session.output.progress) as (connection, running):
            _announce(session.output, state, connection, "Ctrl-C stops it")
            # Cancelled by Ctrl-C and SIGTERM, which is how this is meant to end.
            with suppress(asyncio.CancelledError):
                await running


def engine_choice(
    model: Path | None,
    untrained: bool,
    openai_base_url: str,
    openai_api_key: str,
    openai_model: str,
) -> EngineChoice:
    """The engine of the options. Raises UsageError."""
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
    """The engine with a folder of trained versions, which is made where there is none."""
    if folder is None:
        return choice
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}", "name a folder") from error
    # The services and the engine run in folders of their own.
    return replace(choice, policy_store=folder.resolve())


def up_arguments(state_dir: Path, choice: EngineChoice, port: int | None = None) -> list[str]:
    """The command line of a platform in the background; secrets stay out of it."""
    options = {
        "--state-dir": state_dir,
        "--model": choice.model_dir,
        "--openai-base-url": choice.openai_base_url,
        "--openai-model": choice.model,
        "--policy-store": choice.policy_store,
        "--port": port,
    }
    words = [str(word) for pair in options.items() if pair[1] for word in pair]
    return [*words, "--untrained"] if choice.untrained else words


class stopping_on_sigterm:  # noqa: N801  reads as a statement
    """Makes SIGTERM end the running task as Ctrl-C does."""

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)


def _state_hint(state: StateFolder) -> list[str]:
    """What other terminals have to set when the folder is not the usual one."""
    if state.path == StateFolder(default_state_dir()).path and STATE_VARIABLE not in os.environ:
        return []
    return [f"  terminals  export {STATE_VARIABLE}={state.path}"]


def _announce(output: Output, state: StateFolder, connection: Connection, stop: str) -> None:
    url = connection.gateway_url
    values = {"url": url, "api_key": connection.api_key, "console": f"{url}/console"}
    lines = [
        "[bold green]Podium is up.[/]\n",
        '  try        podium run "How many days are between 1 March and 24 December 2025?"',
        f"  watch      {url}/console",
        *_state_hint(state),
        f"  OpenAI     base URL {url}/v1",
        f"             API key  {connection.api_key}",
        f"\n{stop}.",
    ]
    output.result(values, Panel("\n".join(lines), expand=False, border_style="green"))
