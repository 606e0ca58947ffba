import sys
from typing import Annotated

import typer

from podium.adapters.v1 import secret_service_pb2 as pb
from podium_cli.command import Session, command
from podium_cli.completion import secret_names
from podium_cli.formats import format_time
from podium_cli.listing import listing
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import segment

TENANTS, OWN = "/v1/secrets", "/v1/user-secrets"
# As the contract has it.
VALUE_BYTES_MAX = 16_384

app = typer.Typer(
    name="secrets",
    help="Set, list, delete: secrets that tools name; no command shows a value.",
    no_args_is_help=True,
)

Name = Annotated[
    str,
    typer.Argument(help="Secret, like weather.", show_default=False, autocompletion=secret_names),
]
Mine = Annotated[
    bool, typer.Option("--mine", help="Your own, secret://user/NAME, and not the tenant's.")
]


@command(app, "set")
async def set_secret(
    session: Session,
    name: Name,
    *,
    mine: Mine = False,
    host: Annotated[
        list[str] | None,
        typer.Option(help="Host that your own may be sent to, like api.example.com; repeatable."),
    ] = None,
) -> None:
    """Store a secret, or its next value, read from stdin or asked for in a terminal."""
    if mine != bool(host):
        raise UsageError(
            "your own secret goes to the hosts that you name, the tenant's to those of its tools",
            "give --mine together with --host",
        )
    body = {"value": _value()} | ({"hosts": host} if host else {})
    kind: type[pb.PutUserSecretResponse | pb.PutSecretResponse] = (
        pb.PutUserSecretResponse if mine else pb.PutSecretResponse
    )
    async with session.gateway() as gateway:
        reply = await gateway.put(f"{OWN if mine else TENANTS}/{segment(name)}", body, kind)
    reference = f"secret://user/{name}" if mine else f"secret://{name}"
    stored = f"{name} has version {reply.secret.version}; tools name it {reference}"
    session.output.result(reply, stored)


@command(app, "list")
async def list_secrets(session: Session, *, mine: Mine = False) -> None:
    """List secrets by name, without their values."""
    kind: type[pb.ListUserSecretsResponse | pb.ListSecretsResponse] = (
        pb.ListUserSecretsResponse if mine else pb.ListSecretsResponse
    )
    async with session.gateway() as gateway:
        found = await gateway.all(OWN if mine else TENANTS, kind)
    rows = [
        (
            each.name,
            str(each.version),
            format_time(each.update_time),
            each.updated_by,
            ", ".join(each.hosts),
        )
        for each in found.secrets
    ]
    columns = ("secret", "version#", "stored", "by", "hosts")
    session.output.result(found, listing(columns, rows, ("by",)))


@command(app, "delete")
async def delete(session: Session, name: Name, *, mine: Mine = False) -> None:
    """Delete a secret; tools that name it fail and say so."""
    kind = pb.DeleteUserSecretResponse if mine else pb.DeleteSecretResponse
    async with session.gateway() as gateway:
        reply = await gateway.delete(f"{OWN if mine else TENANTS}/{segment(name)}", kind)
    session.output.result(reply, f"{name} is deleted")


def _value() -> str:
    """Never an argument: other users of the machine see those, and so does the shell's history."""
    if sys.stdin.isatty():
        return str(typer.prompt("Value", hide_input=True, err=True))
    # A byte more than is taken, so that the platform says what the limit is.
    given = sys.stdin.buffer.read(VALUE_BYTES_MAX + 3)
    try:
        # The end of the line is the editor's, that of Windows too.
        value = given.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UsageError("the value on stdin is not UTF-8 text", "encode it as base64") from error
    if not value:
        raise UsageError("stdin holds no value", "podium secrets set NAME < FILE")
    return value
