from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from podium.ledger.v1 import price_book_service_pb2 as prices_pb2
from podium_cli.command import Session, command
from podium_cli.formats import counted, format_time
from podium_cli.inputs import parse_time
from podium_cli.listing import Listing, listing
from podium_cli.prices.lists import format_price, format_sku, read_price_list
from podium_cli.tools.tools import DryRun
from podium_cli.unmatched import warn_of_unused_skus
from podium_kit.client.errors import UsageError, UserError
from podium_kit.metering import is_own

app = typer.Typer(name="prices", help="List, show, import, delete.", no_args_is_help=True)

COLUMNS = ("sku", "price", "from", "until", "source")
MARKS = {
    prices_pb2.PRICE_CHANGE_NEW: Text("+ new", "green"),
    prices_pb2.PRICE_CHANGE_CHANGED: Text("~ changed", "yellow"),
    prices_pb2.PRICE_CHANGE_CORRECTED: Text("! corrected", "red"),
}
# Enough for a list of all that a provider sells; the contract takes no more at once.
BATCH = 1000

Sku = Annotated[str, typer.Option(help="Only SKUs that start so, like tool/.")]
KnownAt = Annotated[str, typer.Option(help="As the price book was known then, like 2026-03-01.")]


@command(app, "list")
async def list_prices(session: Session, sku: Sku = "", known_at: KnownAt = "") -> None:
    """List every version of every price."""
    query = {"sku_prefix": sku, "known_at": parse_time(known_at)}
    async with session.gateway() as gateway:
        found = await gateway.all("/v1/prices", prices_pb2.ListPricesResponse, **query)
    rows = [_row(price.spec) for price in found.prices]
    session.output.result(found, listing(COLUMNS, rows, ("source", "until")))


@command(app, "show")
async def show(
    session: Session,
    sku: Annotated[str, typer.Argument(help="SKU, like openai/gpt-5.", show_default=False)],
    *,
    at: Annotated[str, typer.Option(help="At this time, like 2026-03-01T14:00Z.")] = "",
    known_at: KnownAt = "",
    service_class: Annotated[str, typer.Option(help="Like batch or priority.")] = "",
    region: Annotated[str, typer.Option(help="Like eu.")] = "",
) -> None:
    """Show what a SKU costs you, now or at another time."""
    query = {
        "skus": sku,
        "at": parse_time(at),
        "known_at": parse_time(known_at),
        "service_class": service_class,
        "region": region,
    }
    async with session.gateway() as gateway:
        found = await gateway.get(
            "/v1/prices/effective", prices_pb2.GetEffectivePricesResponse, **query
        )
    if sku not in found.prices:
        raise UserError(
            f"the price of {sku} is unknown", "see `podium prices list`, or import a price"
        )
    price = found.prices[sku]
    rows = [
        ("price", format_price(price.spec)),
        ("for", format_sku(price.spec)),
        ("from", format_time(price.spec.start_time) or "ever since"),
        ("until", format_time(price.spec.end_time) or "further notice"),
        ("known since", format_time(price.create_time)),
        ("source", price.spec.source),
        ("id", price.id),
    ]
    session.output.result(price, listing(("", ""), rows))


@command(app, "import")
async def import_prices(
    session: Session,
    file: Annotated[
        Path, typer.Argument(help="CSV, YAML or JSON, or a folder of them.", show_default=False)
    ],
    dry_run: DryRun = False,
) -> None:
    """Add the prices of a list: all of them, or none. SKUs that start with own/
    are the tenant's to price; all others need an admin key.

    What holds already stays as it is, so a list may be imported again. A price that differs
    becomes a new version from its start on; nothing that was posted changes.
    """
    specs = read_price_list(file)
    if len(specs) > BATCH:
        raise UserError(
            f"{file} holds {counted(len(specs), 'price')}", f"split it: at most {BATCH} at once"
        )
    admin = not all(is_own(spec.sku) for spec in specs)
    async with session.gateway(admin=admin) as gateway:
        reply = await gateway.post(
            "/v1/prices",
            prices_pb2.CreatePricesRequest(specs=specs, validate_only=dry_run),
            prices_pb2.CreatePricesResponse,
        )
        await warn_of_unused_skus(gateway, session.output, (spec.sku for spec in specs))
    verb = "would be added" if dry_run else "added"
    known = len(specs) - reply.created_count
    summary = f"{counted(reply.created_count, 'price')} {verb}, {known} known already"
    view = Group(_differences(reply), summary) if reply.created_count else summary
    session.output.result(reply, view)


@command(app, "delete")
async def delete(
    session: Session,
    names: Annotated[
        list[str] | None,
        typer.Argument(help="SKUs, or ids as `prices show` prints them.", show_default=False),
    ] = None,
    *,
    source: Annotated[str, typer.Option(help="All that were imported from this source.")] = "",
) -> None:
    """Delete prices that no call used, all of those named or none; what was used stays.

    The price that held before holds again.
    """
    if bool(names) == bool(source):
        raise UsageError("name prices or their source", "give SKUs, ids or --source")
    async with session.gateway() as gateway:
        known = await gateway.all("/v1/prices", prices_pb2.ListPricesResponse)
    chosen = [each for each in known.prices if _is_meant(each, names or [], source)]
    for name in names or []:
        if not any(_is_meant(each, [name], "") for each in chosen):
            raise UserError(f"there is no price of {name}", "see `podium prices list`")
    if not chosen:
        raise UserError(f"no price is from {source!r}", "see `podium prices list`")
    admin = not all(is_own(each.spec.sku) for each in chosen)
    async with session.gateway(admin=admin) as gateway:
        reply = await gateway.delete(
            "/v1/prices", prices_pb2.DeletePricesResponse, ids=[each.id for each in chosen]
        )
    rows = [_row(each.spec) for each in reply.prices]
    view = Group(
        listing(COLUMNS, rows, ("source", "until")), f"{counted(len(rows), 'price')} deleted"
    )
    session.output.result(reply, view)


def _is_meant(price: prices_pb2.Price, names: list[str], source: str) -> bool:
    named = price.id in names or price.spec.sku in names
    return named or (bool(source) and price.spec.source == source)


def _differences(reply: prices_pb2.CreatePricesResponse) -> Listing:
    rows: list[tuple[str | Text, ...]] = []
    for price, difference in zip(reply.prices, reply.differences, strict=True):
        if difference.change not in MARKS:
            continue
        spec, start = price.spec, format_time(price.spec.start_time)
        rows.append((MARKS[difference.change], format_sku(spec), format_price(spec), start))
        if difference.HasField("before"):
            was = Text(format_price(difference.before.spec), "dim")
            rows.append(("", "", Text.assemble(("was ", "dim"), was), ""))
    return listing(("", "sku", "price", "from"), rows)


def _row(spec: prices_pb2.PriceSpec) -> tuple[str, ...]:
    return (
        format_sku(spec),
        format_price(spec),
        format_time(spec.start_time),
        format_time(spec.end_time),
        spec.source,
    )
