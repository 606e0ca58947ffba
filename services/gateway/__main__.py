"""`python -m gateway` serves; `python -m gateway keys create` makes a key, for example
the first one, which needs no key to be made; `python -m gateway openapi` prints the API."""

import json
from datetime import UTC, datetime
from typing import Annotated

import typer
import uvloop

from gateway.config import DatabaseSettings, GatewaySettings
from gateway.keys.models import KeyRequest
from gateway.keys.offline import api_keys
from gateway.server import openapi_document, serve
from podium_kit.rpc.errors import DomainError
from podium_kit.rpc.identity import Identity, Role, acting_as
from podium_kit.rpc.process import run
from podium_kit.rpc.settings import describe_settings, load_settings

SETTINGS_HELP = "\n\n".join(
    f"\b\n{part}" for part in describe_settings(GatewaySettings).split("\n\n")
)
# Plain help: the settings below it are a table that must keep its lines.
app = typer.Typer(add_completion=False, rich_markup_mode=None)
keys = typer.Typer(help="API keys.", no_args_is_help=True)
app.add_typer(keys, name="keys")


@app.callback(invoke_without_command=True, epilog=SETTINGS_HELP)
def main(context: typer.Context) -> None:
    """Serve the public HTTP API; without a command, until SIGTERM."""
    if context.invoked_subcommand is None:
        run(serve(load_settings(GatewaySettings)))


@app.command()
def openapi() -> None:
    """Print the OpenAPI document; needs no settings and connects to nothing."""
    typer.echo(json.dumps(uvloop.run(openapi_document()), indent=1, sort_keys=True))


@keys.command()
def create(
    tenant: Annotated[str, typer.Option(help="tenant the key belongs to")],
    subject: Annotated[str, typer.Option(help="person or application that uses it")],
    scopes: Annotated[str, typer.Option(help="comma-separated; instead of a role")] = "",
    role: Annotated[Role, typer.Option(help="what its owner is")] = Role.TENANT_ADMIN,
    expires: Annotated[datetime | None, typer.Option(help="UTC; never when left out")] = None,
) -> None:
    """Create a key and print it; it is stored as a hash and cannot be shown again."""
    settings = load_settings(DatabaseSettings)
    try:
        wanted = KeyRequest(
            tenant=tenant,
            subject=subject,
            scopes=frozenset(scopes.split(",") if scopes else ()),
            roles=frozenset(() if scopes else {role}),
            expire_time=expires and expires.replace(tzinfo=UTC),
        )
        typer.echo(uvloop.run(_create(settings, wanted)))
    except DomainError as error:
        typer.echo(error.message, err=True)
        raise typer.Exit(1) from error


async def _create(settings: DatabaseSettings, wanted: KeyRequest) -> str:
    # The audit log names the operator; being at the database is all the proof there is.
    operator = Identity(wanted.tenant, "operator", frozenset())
    async with api_keys(settings) as issued:
        with acting_as(operator):
            return (await issued.issue(wanted))[1]


if __name__ == "__main__":
    app(prog_name="python -m gateway")
