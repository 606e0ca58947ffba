"""All commands of `podium`, put together."""

from importlib.metadata import version
from typing import Annotated

import typer

from podium_cli import DISTRIBUTION
from podium_cli.commands import (
    audit,
    budgets,
    corpus,
    demo,
    doctor,
    down,
    episodes,
    identity,
    keys,
    limits,
    models,
    policies,
    prices,
    run,
    spend,
    status,
    tools,
    train,
    trajectories,
    up,
    watch,
)

HELP = """Runs tasks with an orchestrator and its tools: the platform on this machine,
and the client of any other.

Start with [bold]podium up[/], then [bold]podium run "What is 17 percent of 2340?"[/]

Progress goes to stderr, results to stdout. Exit status: 0 success, 1 failed, 2 wrong usage,
130 interrupted.
"""

app = typer.Typer(
    name="podium",
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


for module in (up, down, status, doctor, identity, demo, run, watch, spend, models):
    module.register(app)
for group, panel in (
    (episodes, "Episodes"),
    (trajectories, "Episodes"),
    (train, "Training"),
    (tools, "Tools and policies"),
    (policies, "Tools and policies"),
    (corpus, "Tools and policies"),
    (prices, "Money"),
    (budgets, "Money"),
    (audit, "Money"),
    (keys, "Access"),
    (limits, "Access"),
):
    app.add_typer(group.app, rich_help_panel=panel)
