from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from podium_cli.command import Session, command
from podium_kit.client.errors import UsageError, UserError
from podium_operations.cluster.api_server import Kubectl
from podium_operations.cluster.examination import examine_cluster
from podium_operations.local.examination import examine

app = typer.Typer(add_completion=False)


@command(app, "doctor")
async def doctor(
    session: Session,
    cluster: Annotated[bool, typer.Option(help="Check what the chart needs of a cluster.")] = False,
    values: Annotated[
        list[Path] | None,
        typer.Option("--values", "-f", help="Values file of the chart; may be repeated."),
    ] = None,
    context: Annotated[str | None, typer.Option(help="kubectl's context of the cluster.")] = None,
) -> None:
    """Check what `podium up` or the chart needs; exit status 1 when something is missing."""
    if not cluster and (values or context):
        raise UsageError("--values and --context are about a cluster", "add --cluster")
    if cluster:
        findings = await examine_cluster(values or [], Kubectl(context))
    else:
        findings = await examine(session.target.state.path)
    table = Table.grid(padding=(0, 2))
    for each in findings:
        mark = "[green]✓[/]" if each.well else "[red]✗[/]"
        table.add_row(mark, each.what, escape(each.finding))
        if each.fix:
            table.add_row("", "", f"[bold]fix:[/] {escape(each.fix)}")
    session.output.result({"findings": [asdict(each) for each in findings]}, table)
    missing = [each.what for each in findings if not each.well]
    if missing:
        raise UserError(f"missing: {', '.join(missing)}", "do what each line above says")
