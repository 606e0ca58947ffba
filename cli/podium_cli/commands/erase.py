import json
from pathlib import Path
from typing import Annotated

import typer

from podium_cli.command import Session, command
from podium_cli.commands.backup import Environment, require_no_url
from podium_cli.output import writing
from podium_kit.client.errors import UnreadableFile, UsageError, UserError
from podium_operations.local.state import write_private

app = typer.Typer(add_completion=False)


@command(app, "erase")
async def erase(
    session: Session,
    tenant: Annotated[str, typer.Argument(help="Tenant.", show_default=False)],
    user: Annotated[str, typer.Option(help="Only this user of it, by subject.")] = "",
    *,
    receipt: Annotated[Path, typer.Option(help="File for the signed receipt.")] = Path(
        "erasure-receipt.json"
    ),
    key: Annotated[
        Path | None,
        typer.Option(
            help="Ed25519 key in PEM that signs it. [default: the ledger's on this machine]"
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete; unset only counts.")] = False,
    environment: Environment = False,
) -> None:
    """Delete the content of a tenant or user. The ledger's entries and the audit log stay."""
    from podium_kit.anchors import load_private_key  # noqa: PLC0415
    from podium_operations.backups.databases import urls_of_environment  # noqa: PLC0415  slow to import
    from podium_operations.backups.local import local_databases  # noqa: PLC0415
    from podium_operations.erasure import erasing  # noqa: PLC0415
    from podium_operations.local.keys import SigningKeys  # noqa: PLC0415

    require_no_url(session, environment)
    if not tenant.strip():
        raise UsageError("the tenant is empty, which is the platform itself", "name a tenant")
    if environment and key is None:
        raise UsageError("no key signs the receipt", "give --key")
    state = session.target.state
    key_file = key or SigningKeys(state.keys).anchor_key_file
    try:
        signing = load_private_key(key_file.read_bytes())
    except OSError as error:
        raise UnreadableFile(key_file, error, "give --key") from error
    if yes:
        _check_receipt(receipt)
    whose = erasing.Whose(tenant, user or None)
    if environment:
        written = await erasing.erase(urls_of_environment(), whose, really=yes)
    else:
        async with local_databases(state) as urls:
            written = await erasing.erase(urls, whose, really=yes)
    if not (sum(written.deleted.values()) or written.kept):
        owner = f"the user {user} of the tenant {tenant}" if user else f"a tenant {tenant}"
        raise UserError(f"nothing is stored of {owner}", "check the spelling; nothing was changed")
    values = {"tenant": tenant, "user": user, "deleted": written.deleted, "kept": written.kept}
    lines = [f"{count:8} {table}" for table, count in sorted(written.deleted.items())]
    if not yes:
        lines = ["would be deleted:", *lines, "nothing was changed; give --yes"]
    else:
        with writing(receipt):
            write_private(receipt, json.dumps(erasing.signed(written, signing), indent=2) + "\n")
        kept = [f"{count:8} {column}" for column, count in sorted(written.kept.items())]
        lines = ["deleted:", *lines, "kept, by name alone:", *kept, f"receipt: {receipt}"]
    session.output.result({**values, "really": yes}, "\n".join(lines))


def _check_receipt(path: Path) -> None:
    """Before anything is deleted: what is gone cannot be counted again. Raises UsageError."""
    with writing(path):
        if path.exists():
            raise UsageError(
                f"{path} exists already, and receipts are kept", "name another file with --receipt"
            )
        write_private(path, "")
        path.unlink()
