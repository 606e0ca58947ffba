from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from podium_cli.command import Session, command
from podium_kit.client.errors import UsageError

Environment = Annotated[
    bool,
    typer.Option(
        "--environment",
        help="Databases of COST_LEDGER_OWNER_DATABASE_URL, EPISODES_DATABASE_URL, ... instead of "
        "the platform on this machine.",
    ),
]
app = typer.Typer(add_completion=False)


@command(app, "backup")
async def backup(
    session: Session,
    folder: Annotated[
        Path | None, typer.Argument(help="Folder to make. [default: podium-backup-TIME]")
    ] = None,
    *,
    with_keys: Annotated[
        Path | None,
        typer.Option(
            "--with-keys",
            help="Another folder to make, for the keys that stored secrets are encrypted with. "
            "Keep it apart from the backup.",
        ),
    ] = None,
    environment: Environment = False,
) -> None:
    """Write a backup of all databases at one point; services continue."""
    from podium_operations.backups.databases import urls_of_environment  # noqa: PLC0415  slow to import
    from podium_operations.backups.local import local_databases, local_files  # noqa: PLC0415
    from podium_operations.backups.making import KeysCopy, make_backup  # noqa: PLC0415

    require_no_url(session, environment)
    require_local_keys(with_keys, environment)
    target = folder or Path(f"podium-backup-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    if environment:
        whose = "the environment's URLs"
        manifest = await make_backup(target, urls_of_environment(), {})
    else:
        state = session.target.state
        whose = f"the platform in {state.path}"
        async with local_databases(state) as urls:
            keys = KeysCopy(state.keys, with_keys)
            manifest = await make_backup(target, urls, local_files(state), keys)
        session.output.note(
            f"{with_keys} has the keys: keep it apart from {target}"
            if with_keys
            else f"the keys are not in it, and without them stored secrets cannot be read: keep a "
            f"copy of {state.keys}, or give --with-keys FOLDER"
        )
    size = sum(each.size_bytes for each in manifest.files.values())
    ledger = manifest.ledger
    session.output.result(
        {"folder": str(target), "size_bytes": size, **manifest.model_dump(mode="json")},
        f"{target}: {len(manifest.databases)} databases of {whose} as of "
        f"{manifest.point_time:%FT%TZ}, "
        f"{ledger.entries} entries of {ledger.tenants} ledgers, {size} bytes",
    )


def require_local_keys(keys: Path | None, environment: bool) -> None:
    """Raises UsageError unless the platform is this machine's, which has its keys in a folder."""
    if keys is not None and environment:
        raise UsageError(
            "databases of the environment come without keys",
            "a cluster's are in the Secret podium-identity: keep a copy of it",
        )


def require_no_url(session: Session, environment: bool) -> None:
    """A gateway's URL says nothing of its databases. Raises UsageError."""
    if session.target.url and not environment:
        raise UsageError(
            f"{session.target.url} is a gateway; backups are of databases",
            "give --environment, or unset PODIUM_URL for the platform on this machine",
        )
