"""`podium prices`: list, import."""

from pathlib import Path
from typing import Annotated

import typer

from podium.ledger.v1 import price_book_service_pb2 as prices_pb2
from podium_cli.command import Session, command
from podium_cli.commands.tools import DryRun
from podium_cli.documents import read_messages
from podium_cli.formats import format_time
from podium_cli.listing import listing
from podium_cli.price_text import format_price

app = typer.Typer(name="prices", help="List, import.", no_args_is_help=True)


@command(app, "list")
async def list_prices(
    session: Session,
    sku: Annotated[str, typer.Option(help="Only SKUs that start so, like tool/.")] = "",
) -> None:
    """List every version of every price."""
    async with session.gateway() as gateway:
        found = await gateway.all("/v1/prices", prices_pb2.ListPricesResponse, sku_prefix=sku)
    rows = [_row(price.spec) for price in found.prices]
    columns = ("sku", "price", "from", "until", "source")
    session.output.result(found, listing(columns, rows))


@command(app, "import")
async def import_prices(
    session: Session,
    file: Annotated[Path, typer.Option("--file", "-f", help="File or folder of YAML or JSON.")],
    dry_run: DryRun = False,
) -> None:
    """Add prices from files: all of them, or none. List prices need an admin key."""
    specs = [spec for _, spec in read_messages(file, prices_pb2.PriceSpec)]
    admin = not all(spec.tenant_override for spec in specs)
    async with session.gateway(admin=admin) as gateway:
        reply = await gateway.post(
            "/v1/prices",
            prices_pb2.CreatePricesRequest(specs=specs, validate_only=dry_run),
            prices_pb2.CreatePricesResponse,
        )
    verb = "would be added" if dry_run else "added"
    known = len(specs) - reply.created_count
    session.output.result(reply, f"{reply.created_count} prices {verb}, {known} are known already")


def _row(spec: prices_pb2.PriceSpec) -> tuple[str, ...]:
    return (
        spec.sku,
        format_price(spec),
        format_time(spec.start_time),
        format_time(spec.end_time),
        spec.source,
    )
