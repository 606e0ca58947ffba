"""All commands of `podium`, put together."""

from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from podium_cli import DISTRIBUTION

MACHINE, EPISODES, TRAINING = "On this machine", "Episodes", "Training"
TOOLS, MONEY, ACCESS = "Tools and policies", "Money", "Access"
# Each is a module of `commands` with an app of its own; and where --help shows it.
COMMANDS = {
    "up": MACHINE,
    "down": MACHINE,
    "status": MACHINE,
    "doctor": MACHINE,
    "identity": MACHINE,
    "demo": MACHINE,
    "run": EPISODES,
    "watch": EPISODES,
    "models": EPISODES,
    "episodes": EPISODES,
    "trajectories": EPISODES,
    "train": TRAINING,
    "tools": TOOLS,
    "policies": TOOLS,
    "corpus": TOOLS,
    "spend": MONEY,
    "prices": MONEY,
    "budgets": MONEY,
    "audit": MONEY,
    "keys": ACCESS,
    "limits": ACCESS,
}
HELP = """Runs tasks with an orchestrator and its tools: the platform on this machine,
and the client of any other.

Start with [bold]podium up[/], then [bold]podium run "What is 17 percent of 2340?"[/]

Progress goes to stderr, results to stdout. Exit status: 0 success, 1 failed, 2 wrong usage,
130 interrupted.
"""


class Commands(TyperGroup):
    """Imports a command when it is asked for: all of them take a second."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        # For lists and suggestions of names.
        self.commands = {name: TyperCommand(name) for name in COMMANDS}

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | TyperGroup | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"podium_cli.commands.{cmd_name}")
        # A Typer without a name is one command.
        build = typer.main.get_group if module.app.info.name else typer.main.get_command
        found = build(module.app)
        assert isinstance(found, TyperCommand | TyperGroup)
        found.rich_help_panel = COMMANDS[cmd_name]
        return found


app = typer.Typer(
    name="podium",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"podium {version(DISTRIBUTION)}")
        raise typer.Exit


@app.callback(help=HELP)
def podium(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Takes what holds for no command in particular."""
