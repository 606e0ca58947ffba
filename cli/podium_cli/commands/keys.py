from typing import Annotated, Any

import typer
from google.protobuf.timestamp_pb2 import Timestamp
from rich.text import Text

from podium_cli.command import Session, command
from podium_cli.formats import format_time
from podium_cli.inputs import parse_end, parse_seconds
from podium_cli.listing import listing
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway, segment
from podium_kit.rpc.identity import Role

PAGE_SIZE = 500
SHOWN_ONCE = "[dim]it is stored as a hash and cannot be shown again[/]"

COLUMNS = ("key", "subject", "roles, scopes, teams", "created", "last used", "state")

app = typer.Typer(
    name="keys",
    help="Create, list, rotate, revoke API keys.",
    no_args_is_help=True,
)


@command(app, "create")
async def create(
    session: Session,
    subject: Annotated[str, typer.Argument(help="Person or application.", show_default=False)],
    *,
    role: Annotated[list[Role] | None, typer.Option(help="What its owner is; repeatable.")] = None,
    scope: Annotated[list[str] | None, typer.Option(help="What it may do; repeatable.")] = None,
    team: Annotated[
        list[str] | None, typer.Option(help="What its owner works in; repeatable.")
    ] = None,
    agent: Annotated[
        list[str] | None, typer.Option(help="The agent it is for; repeatable.")
    ] = None,
    expires: Annotated[
        str, typer.Option(help="When it ends: in 30d, or at a time like 2026-12-31.")
    ] = "",
    tenant: Annotated[
        str, typer.Option(help="First key of another tenant, whose admin it is; on this machine.")
    ] = "",
) -> None:
    """Create a key and print it once; its owner is a developer unless you say otherwise."""
    if tenant:
        if role or scope or team or agent or expires:
            raise UsageError(
                "the first key of a tenant is its admin's", "leave out the other options"
            )
        session.output.result(
            {"key": (key := await _first_key(session, tenant, subject))}, Text(key)
        )
        session.output.note(SHOWN_ONCE)
        return
    roles = role or ([] if scope else [Role.DEVELOPER])
    body = {
        "subject": subject,
        "scopes": scope or [],
        "roles": roles,
        "teams": team or [],
        "agents": agent or [],
        "expire_time": parse_end(expires) or None,
    }
    async with session.gateway() as gateway:
        reply = await gateway.call("POST", "/v1/api-keys", body=body)
    session.output.result(reply, Text(reply["key"]))
    session.output.note(SHOWN_ONCE)


async def _first_key(session: Session, tenant: str, subject: str) -> str:
    """A tenant exists as soon as it has a key; the first is made at the gateway's database."""
    if session.target.url is not None:
        raise UsageError(
            "--tenant makes a key at the database of the platform on this machine",
            "elsewhere: python -m gateway keys create --help, where the gateway's database is",
        )
    from podium_operations.backups.local import local_databases  # noqa: PLC0415  slow to import
    from podium_operations.local.keys import issue_first_key  # noqa: PLC0415

    async with local_databases(session.target.state) as urls:
        return await issue_first_key(urls["gateway"], tenant, subject, Role.TENANT_ADMIN)


@command(app, "list")
async def list_keys(session: Session) -> None:
    """List the keys of your tenant, revoked ones included."""
    async with session.gateway() as gateway:
        keys = await all_keys(gateway)
    rows = [
        (
            key["id"],
            key["subject"],
            ", ".join([*key["roles"], *key["scopes"], *(f"team:{team}" for team in key["teams"])]),
            _local(key["create_time"]),
            _local(key["last_used_time"]) if key["last_used_time"] else "never",
            _state(key),
        )
        for key in keys
    ]
    session.output.result({"api_keys": keys}, listing(COLUMNS, rows, ("created", "last used")))


@command(app, "rotate")
async def rotate(
    session: Session,
    key_id: Annotated[str, typer.Argument(help="Id from `podium keys list`.", show_default=False)],
    overlap: Annotated[
        str, typer.Option(help="How long the old key keeps working, like 1h.")
    ] = "24h",
) -> None:
    """Create a key in the place of another and print it once; both work for a while."""
    async with session.gateway() as gateway:
        path = f"/v1/api-keys/{segment(key_id)}/rotate"
        reply = await gateway.call("POST", path, body={"overlap_s": parse_seconds(overlap)})
    session.output.result(reply, Text(reply["key"]))
    session.output.note(SHOWN_ONCE)
    until = _local(reply["old_api_key"]["expire_time"])
    session.output.note(f"[dim]{key_id} works until {until}[/]")


@command(app, "revoke")
async def revoke(
    session: Session,
    key_id: Annotated[str, typer.Argument(help="Id from `podium keys list`.", show_default=False)],
) -> None:
    """Revoke a key; it stops working within seconds."""
    async with session.gateway() as gateway:
        reply = await gateway.call("POST", f"/v1/api-keys/{segment(key_id)}/revoke", body={})
    session.output.result(reply, f"key {key_id} is revoked")


async def all_keys(gateway: Gateway) -> list[dict[str, Any]]:
    keys, token = [], ""
    while True:
        query = {"page_size": PAGE_SIZE, "page_token": token}
        page = await gateway.call("GET", "/v1/api-keys", query=query)
        keys += page["api_keys"]
        if not (token := page["next_page_token"]):
            return keys


def _state(key: dict[str, str | None]) -> str:
    if key["revoke_time"]:
        return "revoked"
    return f"until {_local(key['expire_time'])}" if key["expire_time"] else "valid"


def _local(time: str) -> str:
    moment = Timestamp()
    moment.FromJsonString(time)
    return format_time(moment)
