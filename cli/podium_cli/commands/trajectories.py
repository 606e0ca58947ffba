"""`podium trajectories tail`: the records that training reads."""

from typing import Annotated

import typer

from podium_cli.command import Session, command
from podium_cli.episodes.trajectory_view import record_view

app = typer.Typer(
    name="trajectories",
    help="Read the trajectory stream.",
    no_args_is_help=True,
)


@command(app, "tail")
async def tail(
    session: Session,
    last: Annotated[int, typer.Option("-n", min=0, help="Records from the end.")] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow until Ctrl-C.")] = False,
    bootstrap: Annotated[
        str, typer.Option(help="Kafka servers.", envvar="PODIUM_KAFKA_BOOTSTRAP")
    ] = "",
    topic: Annotated[str, typer.Option(help="Topic.")] = "trajectories.v1",
) -> None:
    """Show trajectories as they are on the stream; with --json one per line."""
    # The Kafka client is slow to import, and needed here alone.
    from podium_cli.episodes.trajectories_kafka import kafka_settings, tail_records  # noqa: PLC0415

    servers = bootstrap or session.target.state.read_connection().kafka_bootstrap
    async for record in tail_records(kafka_settings(servers), topic, last, follow):
        if session.output.as_json:
            session.output.json(record)
        else:
            session.output.results.print(record_view(record))
