from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from podium_cli.command import Session, command
from podium_cli.commands.backup import Environment, require_local_keys, require_no_url

app = typer.Typer(add_completion=False)


@command(app, "restore")
async def restore(
    session: Session,
    folder: Annotated[Path, typer.Argument(help="What `podium backup` made.")],
    *,
    replace: Annotated[
        bool, typer.Option("--replace", help="Also where there are data already.")
    ] = False,
    keys: Annotated[
        Path | None,
        typer.Option(
            "--keys",
            help="What `podium backup --with-keys` made. [default: the keys of the state folder]",
        ),
    ] = None,
    environment: Environment = False,
) -> None:
    """Restore a backup into a stopped platform, and verify its ledger."""
    from podium_operations.backups.databases import urls_of_environment  # noqa: PLC0415  slow to import
    from podium_operations.backups.local import restored_installation  # noqa: PLC0415
    from podium_operations.backups.manifest import read_manifest  # noqa: PLC0415
    from podium_operations.backups.restoring import restore_databases  # noqa: PLC0415

    require_no_url(session, environment)
    require_local_keys(keys, environment)
    manifest = read_manifest(folder)
    if environment:
        restored = await restore_databases(folder, manifest, urls_of_environment(), replace)
    else:
        state = session.target.state
        async with restored_installation(state, folder, manifest, replace, keys) as urls:
            restored = await restore_databases(folder, manifest, urls, replace)
    ledger, unfinished = manifest.ledger, restored.unfinished_episodes
    session.output.result(
        {"folder": str(folder), "point_time": str(manifest.point_time), **asdict(restored)},
        f"restored as of {manifest.point_time:%FT%TZ}; {ledger.entries} entries of "
        f"{ledger.tenants} ledgers verify\n"
        f"after the start: {restored.begun_episodes} episodes that had begun end as failed, "
        f"{unfinished - restored.begun_episodes} others start, {restored.records_to_check} "
        "records are looked for on the stream",
    )
