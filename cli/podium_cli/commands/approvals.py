import typer

from podium.episodes.v1 import episode_service_pb2
from podium_cli.command import Session, command
from podium_cli.formats import format_time
from podium_cli.listing import listing
from podium_kit.text import one_line

ARGUMENTS_CHARACTERS = 60

app = typer.Typer(
    name="approvals",
    help="List the calls that wait for a person.",
    no_args_is_help=True,
)


@app.callback()
def group() -> None:
    """Makes `list` a command of its own."""


@command(app, "list")
async def list_approvals(session: Session) -> None:
    """List the calls that wait for a person; `podium episodes approve` decides."""
    async with session.gateway() as gateway:
        found = await gateway.all("/v1/approvals", episode_service_pb2.ListApprovalsResponse)
    columns = ("episode", "turn#", "call#", "tool", "arguments", "started by", "until")
    rows = [
        (
            each.episode_id,
            str(each.turn),
            str(each.call.index),
            each.call.tool_name,
            one_line(each.call.arguments_json, ARGUMENTS_CHARACTERS),
            each.started_by if each.approvable else f"{each.started_by} (may not approve)",
            format_time(each.expire_time),
        )
        for each in found.approvals
    ]
    session.output.result(found, listing(columns, rows, ("arguments", "until")))
