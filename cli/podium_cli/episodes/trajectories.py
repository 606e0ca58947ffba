from typing import Annotated

import typer

from podium.episodes.v1 import dead_letter_service_pb2 as pb
from podium_cli.command import Session, command
from podium_cli.episodes.trajectory_view import record_view
from podium_cli.formats import counted, format_time
from podium_cli.listing import listing
from podium_kit.client.errors import UsageError

app = typer.Typer(
    name="trajectories",
    help="Read the trajectory stream, and its dead-lettered records.",
    no_args_is_help=True,
)


@command(app, "tail")
async def tail(
    session: Session,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, help="Most records, from the end.")
    ] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow until Ctrl-C.")] = False,
    bootstrap: Annotated[
        str, typer.Option(help="Kafka servers.", envvar="PODIUM_KAFKA_BOOTSTRAP")
    ] = "",
    topic: Annotated[str, typer.Option(help="Topic.")] = "trajectories.v1",
) -> None:
    """Show trajectories as they are on the stream; with --json one per line."""
    # The Kafka client is slow to import, and needed here alone.
    from podium_cli.episodes.trajectories_kafka import kafka_settings, tail_records  # noqa: PLC0415

    known = {"bootstrap": bootstrap} if bootstrap else session.target.state.read_connection().kafka
    async for record in tail_records(kafka_settings(known), topic, limit, follow):
        if session.output.as_json:
            session.output.json(record)
        else:
            session.output.results.print(record_view(record))


AllTenants = Annotated[bool, typer.Option(help="Of every tenant; platform admins only.")]


@command(app, "dead-letters")
async def dead_letters(session: Session, *, all_tenants: AllTenants = False) -> None:
    """List records that could not be published, with the reason, newest first."""
    query = {"all_tenants": "true"} if all_tenants else {}
    async with session.gateway(admin=all_tenants) as gateway:
        found = await gateway.all("/v1/dead-letters", pb.ListDeadLettersResponse, **query)
    columns = ("when", "tenant", "record", "reason…")
    rows = [
        (format_time(each.create_time), each.tenant, each.record_id, each.reason)
        for each in found.dead_letters
    ]
    session.output.result(found, listing(columns, rows))


@command(app, "redrive")
async def redrive(
    session: Session,
    record_ids: Annotated[
        list[str] | None, typer.Argument(help="Records; see dead-letters.", show_default=False)
    ] = None,
    *,
    all_records: Annotated[bool, typer.Option("--all", help="All of your tenant.")] = False,
    all_tenants: AllTenants = False,
) -> None:
    """Publish records again after the cause was fixed."""
    if bool(record_ids) == (all_records or all_tenants):
        raise UsageError("name records or take all of them", "give ids, --all or --all-tenants")
    body = {"record_ids": record_ids or [], "all_tenants": all_tenants}
    async with session.gateway(admin=all_tenants) as gateway:
        found = await gateway.post("/v1/dead-letters/redrive", body, pb.RedriveDeadLettersResponse)
    session.output.result(found, f"{counted(found.count, 'record')} published again")
