from typing import Annotated, Any

import typer

from podium_cli.command import Session, command
from podium_cli.listing import listing
from podium_kit.client.gateway import segment

COLUMNS = (
    "tenant",
    "requests per second",
    "burst",
    "open requests",
    "running episodes",
    "files",
    "file bytes",
)

app = typer.Typer(
    name="limits",
    help="Show and change how much a tenant may use.",
    no_args_is_help=True,
)
Tenant = Annotated[str, typer.Argument(help="A tenant.", show_default=False)]


@command(app, "show")
async def show(
    session: Session,
    tenant: Annotated[str, typer.Argument(help="Another tenant; platform admins only.")] = "",
) -> None:
    """Show the limits of your tenant, or of another."""
    async with session.gateway(admin=bool(tenant)) as gateway:
        _print(session, await gateway.call("GET", _path(tenant) if tenant else "/v1/limits"))


@command(app, "set")
async def change(
    session: Session,
    tenant: Tenant,
    *,
    requests_per_s: Annotated[float | None, typer.Option(help="Requests per second.")] = None,
    burst: Annotated[int | None, typer.Option(help="Requests that may come at once.")] = None,
    concurrency: Annotated[int | None, typer.Option(help="Open requests.")] = None,
    running_episodes: Annotated[int | None, typer.Option(help="Episodes at once.")] = None,
    files: Annotated[int | None, typer.Option(help="Files of requests that are kept.")] = None,
    file_bytes: Annotated[int | None, typer.Option(help="Bytes of those files.")] = None,
) -> None:
    """Change a tenant's limits; what is left out stays. Platform admins only."""
    given = {
        "requests_per_s": requests_per_s,
        "burst": burst,
        "concurrency": concurrency,
        "running_episodes": running_episodes,
        "files": files,
        "file_bytes": file_bytes,
    }
    body = {name: value for name, value in given.items() if value is not None}
    async with session.gateway(admin=True) as gateway:
        _print(session, await gateway.call("PUT", _path(tenant), body=body))


@command(app, "reset")
async def reset(session: Session, tenant: Tenant) -> None:
    """Go back to the platform's defaults. Platform admins only."""
    async with session.gateway(admin=True) as gateway:
        _print(session, await gateway.call("DELETE", _path(tenant)))


def _path(tenant: str) -> str:
    return f"/v1/tenants/{segment(tenant)}/limits"


def _print(session: Session, limits: dict[str, Any]) -> None:
    rate = f"{limits['requests_per_s']:g}"
    counts = (limits[name] for name in ("burst", "concurrency", "running_episodes"))
    kept = ("default" if limits[name] is None else limits[name] for name in ("files", "file_bytes"))
    row = (limits["tenant"], rate, *counts, *kept)
    session.output.result(limits, listing(COLUMNS, [row]))
