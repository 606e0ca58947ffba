from collections.abc import Iterator, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from podium.ledger.v1 import price_book_service_pb2 as prices_pb2
from podium_cli.audit.verifying import Bar, progress_bar
from podium_cli.command import Session, command
from podium_cli.formats import counted, format_time
from podium_cli.inputs import parse_time
from podium_cli.listing import Listing, listing
from podium_cli.prices.lists import format_price, format_sku, read_price_list
from podium_cli.prices.litellm import NotImported, read_litellm_prices
from podium_cli.tools.tools import DryRun
from podium_cli.unmatched import warn_of_unused_skus
from podium_kit.client.errors import UsageError, UserError
from podium_kit.client.gateway import Gateway
from podium_kit.metering import is_own
from podium_kit.wire import json_values

T = TypeVar("T")
app = typer.Typer(name="prices", help="List, show, import, delete.", no_args_is_help=True)

COLUMNS = ("sku", "price", "from", "until", "source")
MARKS = {
    prices_pb2.PRICE_CHANGE_NEW: Text("+ new", "green"),
    prices_pb2.PRICE_CHANGE_CHANGED: Text("~ changed", "yellow"),
    prices_pb2.PRICE_CHANGE_CORRECTED: Text("! corrected", "red"),
}
# Of more than the contract has at once, each request is short enough for a busy platform.
BATCH, PART = 1000, 100
DIFFERENCES_SHOWN = 200
NOT_IMPORTED = ("what", "count", "examples")

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


class FileFormat(StrEnum):
    PODIUM = "podium"
    LITELLM = "litellm"


Only = Annotated[
    list[str] | None,
    typer.Option(help="Only models or SKUs that match, like 'gpt-5*'.", show_default=False),
]
SkuPrefix = Annotated[str, typer.Option(help="Put before every SKU, like own/.")]


@command(app, "import")
async def import_prices(
    session: Session,
    file: Annotated[
        Path, typer.Argument(help="CSV, YAML or JSON, or a folder of them.", show_default=False)
    ],
    *,
    file_format: Annotated[
        FileFormat, typer.Option("--format", help="Who defines the form of the file.")
    ] = FileFormat.PODIUM,
    only: Only = None,
    sku_prefix: SkuPrefix = "",
    dry_run: DryRun = False,
) -> None:
    """Add the prices of a list: all of them, or none; of more than a thousand, every hundred by
    themselves. SKUs that start with own/ are the tenant's to price; all others need an admin key.

    What holds already stays as it is, so a list may be imported again. A price that differs
    becomes a new version from its start on; nothing that was posted changes.
    """

    def wanted(*names: str) -> bool:
        return not only or any(fnmatchcase(name, each) for name in names for each in only)

    ignored = NotImported()
    if file_format is FileFormat.LITELLM:
        specs, ignored = read_litellm_prices(file, wanted)
    else:
        specs = [spec for spec in read_price_list(file) if wanted(spec.sku)]
    if not specs:
        reasons = "; ".join(what for what, _, _ in ignored.rows()) or "no such SKU"
        raise UserError(f"nothing of {file} can be imported: {reasons[:300]}", "check --only")
    for spec in specs:
        spec.sku = f"{sku_prefix}{spec.sku}"
    admin = not all(is_own(spec.sku) for spec in specs)
    async with session.gateway(admin=admin) as gateway:
        with progress_bar(session.output.progress, "importing") as bar:
            reply = await _create(gateway, specs, dry_run, bar)
        await warn_of_unused_skus(gateway, session.output, (spec.sku for spec in specs))
    verb = "would be added" if dry_run else "added"
    known = len(specs) - reply.created_count
    rows = list(ignored.rows())
    not_imported = [dict(zip(NOT_IMPORTED, row, strict=True)) for row in rows]
    parts: list[RenderableType] = []
    if reply.created_count:
        parts.append(_differences(reply))
    if rows:
        parts.append(listing(("not imported", "count#", "for example"), rows))
    parts.append(f"{counted(reply.created_count, 'price')} {verb}, {known} known already")
    session.output.result(json_values(reply) | {"not_imported": not_imported}, Group(*parts))


async def _create(
    gateway: Gateway, specs: Sequence[prices_pb2.PriceSpec], dry_run: bool, bar: Bar
) -> prices_pb2.CreatePricesResponse:
    created = prices_pb2.CreatePricesResponse()
    for part in _parts(specs):
        request = prices_pb2.CreatePricesRequest(specs=part, validate_only=dry_run)
        reply = await gateway.post("/v1/prices", request, prices_pb2.CreatePricesResponse)
        count = created.created_count + reply.created_count
        created.MergeFrom(reply)
        created.created_count = count
        bar.at(len(created.prices), len(specs))
    return created


def _parts(whole: Sequence[T]) -> Iterator[Sequence[T]]:
    size = BATCH if len(whole) <= BATCH else PART
    return (whole[start : start + size] for start in range(0, len(whole), size))


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
    """Delete prices that no call used, all of those named or none; of more than a thousand, every
    hundred by themselves. What was used stays.

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
    reply = prices_pb2.DeletePricesResponse()
    async with session.gateway(admin=admin) as gateway:
        for some in _parts(chosen):
            ids = [each.id for each in some]
            part = await gateway.delete("/v1/prices", prices_pb2.DeletePricesResponse, ids=ids)
            reply.MergeFrom(part)
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
        if len(rows) >= DIFFERENCES_SHOWN:
            rows.append(("…", "more, see --json", "", ""))
            break
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
