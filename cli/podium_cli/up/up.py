import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.panel import Panel

from podium_cli.command import Session, command, stopping_on_sigterm
from podium_cli.output import Output
from podium_cli.up.background import ENGINE_KEY_VARIABLE, start_in_background
from podium_operations.local.state import STATE_VARIABLE, Connection, StateFolder, default_state_dir

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
UpPromptMode = Annotated[
    str,
    typer.Option(
        "--prompt-mode",
        help="Form of prompts where an episode names none: stateless, chat, or template for models "
        "trained to call tools by their chat template. [default: stateless]",
    ),
]
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
AllowHosts = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host",
        help="Host that a tenant's tools may reach though it is not public; repeatable.",
    ),
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
    prompt_mode: UpPromptMode = "",
    policy_store: PolicyStore = None,
    port: GatewayPort = None,
    allow_host: AllowHosts = None,
    yes: AssumeYes = False,
    detach: Annotated[bool, typer.Option(help="Keep running in the background.")] = False,
) -> None:
    """Start the platform: databases, workflows, stream, model, services, tools. Ctrl-C stops it."""
    # What a platform is made of is slow to import, and needed by those alone who start one.
    from podium_cli.up import starting  # noqa: PLC0415

    state = session.target.state
    engine = starting.engine_choice(model, untrained, openai_base_url, openai_api_key, openai_model)
    engine = starting.with_prompt_mode(engine, prompt_mode)
    choice = starting.with_policy_store(engine, policy_store)
    options = starting.PlatformOptions(
        state.path, choice, port, settings=starting.allowing(allow_host or [])
    )
    await starting.ensure_engine_installed(choice, yes, session.output.progress)
    if detach:
        arguments = starting.up_arguments(state.path, choice, port, allow_host or [])
        connection = await start_in_background(
            state, arguments, choice.openai_api_key, session.output
        )
        _announce(session.output, state, connection, "`podium down` stops it")
        return
    with stopping_on_sigterm():
        running_platform = starting.running_platform(options, session.output.progress)
        async with running_platform as (connection, running):
            _announce(session.output, state, connection, "Ctrl-C stops it")
            # Cancelled by Ctrl-C and SIGTERM, which is how this is meant to end.
            with suppress(asyncio.CancelledError):
                await running


def _state_hint(state: StateFolder) -> list[str]:
    """Returns the variable for other terminals when the folder is not the usual one."""
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
