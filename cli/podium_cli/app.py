from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from podium_operations import DISTRIBUTION

MACHINE, EPISODES, TRAINING = "On this machine", "Episodes", "Training"
TOOLS, MONEY, ACCESS = "Tools and policies", "Money", "Access"
# The module with the command's app, the panel of --help, and the summary. The summary repeats the
# module's own, because importing all modules takes too long for a list.
COMMANDS = {
    "up": (
        "up.up",
        MACHINE,
        "Start the platform: databases, workflows, stream, model, services, tools.",
    ),
    "down": (
        "commands.down",
        MACHINE,
        "Stop the platform; episodes resume at the next `podium up`.",
    ),
    "status": (
        "commands.status",
        MACHINE,
        "Show processes, health, ports and memory; exit status 1 when something is unwell.",
    ),
    "doctor": (
        "commands.doctor",
        MACHINE,
        "Check what `podium up` or the chart needs; exit status 1 when something is missing.",
    ),
    "backup": (
        "commands.backup",
        MACHINE,
        "Write a backup of all databases at one point; services continue.",
    ),
    "restore": (
        "commands.restore",
        MACHINE,
        "Restore a backup into a stopped platform, and verify its ledger.",
    ),
    "erase": ("commands.erase", MACHINE, "Delete the content of a tenant or user."),
    "identity": (
        "commands.identity",
        MACHINE,
        "Make the keys that the chart's Secret podium-identity holds, where they are missing.",
    ),
    "init": (
        "commands.init",
        MACHINE,
        "Write a first tool, policy and task, run them, and say what to do next.",
    ),
    "demo": ("demo.demo", MACHINE, "Solve real tasks with checkable answers and show the results."),
    "run": ("episodes.run", EPISODES, "Run a task and show its turns; the answer goes to stdout."),
    "watch": ("episodes.watch", EPISODES, "Show an episode from its beginning to its end."),
    "models": (
        "commands.models",
        EPISODES,
        "List the models an episode can ask for, alone or with a policy.",
    ),
    "episodes": ("episodes.episodes", EPISODES, "List, show, cancel, approve, feedback."),
    "trajectories": (
        "episodes.trajectories",
        EPISODES,
        "Read the trajectory stream, and its dead-lettered records.",
    ),
    "webhooks": (
        "commands.webhooks",
        EPISODES,
        "Create, list, deliveries, replay, delete: where events are sent.",
    ),
    "train": ("train", TRAINING, "Make tasks, run episodes, and give users what was learnt."),
    "eval": (
        "evaluations",
        TRAINING,
        "Measure arms on a suite: run, watch, report, compare, with intervals.",
    ),
    "tools": (
        "tools",
        TOOLS,
        "List, show, search, try, test, apply, import, follow, describe, delete.",
    ),
    "approvals": ("commands.approvals", EPISODES, "List the calls that wait for a person."),
    "policies": (
        "policies",
        TOOLS,
        "List, show, apply, activate, schedule, explain, bind, delete, try, report.",
    ),
    "export": (
        "commands.export",
        TOOLS,
        "Write tools, policies, own prices and budgets as Kubernetes objects.",
    ),
    "corpus": ("corpus.corpus", TOOLS, "Documents that tools search: add, list, search, delete."),
    "spend": ("commands.spend", MONEY, "Report spend from the ledger, most expensive first."),
    "savings": (
        "commands.savings",
        MONEY,
        "Compare what was spent with the same calls at one model's price.",
    ),
    "prices": ("prices.prices", MONEY, "List, show, import, delete."),
    "budgets": ("commands.budgets", MONEY, "List, show, create, update, raise, close, alerts."),
    "audit": (
        "audit",
        MONEY,
        "Explain, verify, prove, export, reconcile, simulate, entries, adjust, settle, close, log.",
    ),
    "keys": ("commands.keys", ACCESS, "Create, list, rotate, revoke API keys."),
    "secrets": (
        "commands.secrets",
        ACCESS,
        "Set, list, delete: secrets that tools name; no command shows a value.",
    ),
    "limits": ("commands.limits", ACCESS, "Show and change how much a tenant may use."),
}
# What people write for one thing instead of all.
SINGULARS = {
    "approval": "approvals",
    "saving": "savings",
    "model": "models",
    "episode": "episodes",
    "trajectory": "trajectories",
    "tool": "tools",
    "policy": "policies",
    "price": "prices",
    "budget": "budgets",
    "webhook": "webhooks",
    "key": "keys",
    "secret": "secrets",
    "limit": "limits",
}
HELP = """Runs tasks with an orchestrator and its tools: the platform on this machine,
and the client of any other.

Start with [bold]podium up[/], then [bold]podium run "What is 17 percent of 2340?"[/]

Progress goes to stderr, results to stdout. Exit status: 0 success, 1 failed, 2 wrong usage,
3 an answer although every tool call failed, 130 interrupted, 141 the reader of the output is
gone, 143 terminated.
"""


class Commands(TyperGroup):
    """Imports a command when it is run; the list of all of them imports none."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = {
            name: TyperCommand(name, help=summary, rich_help_panel=panel)
            for name, (_, panel, summary) in COMMANDS.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, listed, rest = super().resolve_command(
            ctx, [SINGULARS.get(args[0], args[0]), *args[1:]]
        )
        return name, load(name) if name and listed else None, rest


def load(name: str) -> TyperCommand | TyperGroup:
    app = import_module(f"podium_cli.{COMMANDS[name][0]}").app
    # A Typer without a name is one command.
    build = typer.main.get_group if app.info.name else typer.main.get_command
    found = build(app)
    assert isinstance(found, TyperCommand | TyperGroup)
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
