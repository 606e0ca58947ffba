"""`podium doctor`: what is missing on this machine, each with its mend."""

from dataclasses import asdict

import typer
from rich.table import Table

from podium_cli.command import Session, command
from podium_cli.commands.up import PANEL
from podium_cli.errors import CliError
from podium_cli.local.examination import examine
from podium_cli.output import escaped


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "doctor", PANEL)(doctor)


async def doctor(session: Session) -> None:
    """Check what `podium up` needs; exit status 1 when something is missing."""
    findings = await examine(session.target.state.path)
    table = Table.grid(padding=(0, 2))
    for each in findings:
        mark = "[green]✓[/]" if each.well else "[red]✗[/]"
        table.add_row(mark, each.what, escaped(each.finding))
        if each.mend:
            table.add_row("", "", f"[bold]mend:[/] {escaped(each.mend)}")
    session.output.result({"findings": [asdict(each) for each in findings]}, table)
    missing = [each.what for each in findings if not each.well]
    if missing:
        raise CliError(f"missing: {', '.join(missing)}", "do what each line above says")
