"""Commands out of functions: the options that all share, and errors in two lines."""

import asyncio
import inspect
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from podium_cli.output import Output
from podium_cli.target import Target
from podium_kit.client.errors import UserError
from podium_kit.client.gateway import Gateway
from podium_kit.embedded.errors import EmbeddedError, StartupFailed
from podium_kit.rpc.errors import DomainError

PANEL = "Which platform"
# What a shell reports of a program that SIGINT or SIGTERM ended.
INTERRUPTED, TERMINATED = 130, 143

SHARED_OPTIONS = {
    "url": Annotated[
        str | None,
        typer.Option(envvar="PODIUM_URL", help="Gateway URL.", rich_help_panel=PANEL),
    ],
    "api_key": Annotated[
        str | None,
        typer.Option(envvar="PODIUM_API_KEY", help="API key.", rich_help_panel=PANEL),
    ],
    "state_dir": Annotated[
        Path | None,
        typer.Option(
            envvar="PODIUM_STATE_DIR",
            help="State folder of the platform on this machine.",
            rich_help_panel=PANEL,
        ),
    ],
    "as_json": Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.")],
}
DEFAULTS = {"url": None, "api_key": None, "state_dir": None, "as_json": False}


@dataclass(frozen=True)
class Session:
    output: Output
    target: Target

    def gateway(self, admin: bool = False) -> Gateway:
        """A client of the gateway; an asynchronous context manager. Raises NotUp, UsageError."""
        return Gateway(*self.target.address(admin))


# A command's own parameters follow the session.
Command = Callable[..., Coroutine[Any, Any, None]]


def command(app: typer.Typer, name: str, panel: str | None = None) -> Callable[[Command], Command]:
    """Registers an async function `(session, ...)` under the name, with the shared options."""

    def register(function: Command) -> Command:
        app.command(name, rich_help_panel=panel)(_runner(function))
        return function

    return register


def _runner(function: Command) -> Callable[..., None]:
    @wraps(function)
    def run(**given: Any) -> None:
        shared = {option: given.pop(option) for option in SHARED_OPTIONS}
        output = Output(shared.pop("as_json"))
        try:
            asyncio.run(function(Session(output, Target(**shared)), **given))
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except asyncio.CancelledError:
            raise typer.Exit(TERMINATED) from None
        except (UserError, EmbeddedError, DomainError) as error:
            problem = user_error(error)
            output.error(problem)
            raise typer.Exit(problem.exit_status) from None

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    added = [
        inspect.Parameter(
            option, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS[option], annotation=annotation
        )
        for option, annotation in SHARED_OPTIONS.items()
    ]
    keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
    # Typer reads the signature; this is its documented way in.
    run.__signature__ = inspect.Signature([*keywords, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in [*keywords, *added]}
    return run


def user_error(error: Exception) -> UserError:
    match error:
        case UserError():
            return error
        case EmbeddedError():
            return _embedded_error(error)
        case _:
            return UserError(str(error))


def _embedded_error(error: EmbeddedError) -> UserError:
    cause, _, fix = str(error).partition(": ")
    if isinstance(error, StartupFailed):
        return UserError(str(error), "fix what the log names, then run `podium up` again")
    return UserError(cause, fix)


class stopping_on_sigterm:  # noqa: N801  reads as a statement
    """Makes SIGTERM end the running task as Ctrl-C does."""

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
