from pathlib import Path
from typing import Annotated

import typer

from podium_cli.command import Session, command
from podium_kit.client.errors import UsageError
from podium_operations.local.keys import ensure_keys

SECRET = "podium-identity"  # noqa: S105  its name


app = typer.Typer(add_completion=False)


@command(app, "identity")
async def identity(
    session: Session,
    folder: Annotated[Path, typer.Argument(help="Folder for the files; keys in it are kept.")],
) -> None:
    """Make the keys that the chart's Secret podium-identity holds, where they are missing."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ensure_keys(folder)
    except (OSError, TypeError, ValueError) as error:
        raise UsageError(f"cannot keep keys in {folder}: {error}", "name another folder") from error
    command_line = f"kubectl create secret generic {SECRET} --from-file={folder}"
    session.output.result({"folder": str(folder), "command": command_line}, command_line)
