"""PostgreSQL's own pg_dump and pg_restore, from the wheel that also brings the server."""

import asyncio
import contextlib
import os
from pathlib import Path

from sqlalchemy import make_url

from podium_kit.client.errors import UserError
from podium_kit.embedded.postgres_cluster import binary

DUMP = (
    *("--format=custom", "--no-owner", "--no-unlogged-table-data", "--no-password"),
    # Extensions belong to the server's administrator; the manifest names them.
    *("--exclude-extension=*", "--lock-wait-timeout=60s"),
)
RESTORE = ("--no-owner", "--exit-on-error", "--single-transaction", "--no-password")
TAIL_LINES = 5


class ProgramFailed(UserError):
    def __init__(self, program: str, database: str, output: str) -> None:
        super().__init__(
            f"{program} failed on the database {database}: {output}",
            f"{program} reads servers up to its own version and restores into 17 or later",
        )


async def dump(database: str, url: str, snapshot: str, file: Path) -> None:
    await _run("pg_dump", database, url, *DUMP, f"--snapshot={snapshot}", f"--file={file}")


async def restore(database: str, url: str, file: Path) -> None:
    """Restores all of it or nothing. Raises ProgramFailed."""
    target = make_url(url).database or ""
    await _run("pg_restore", database, url, *RESTORE, f"--dbname={target}", str(file))


async def _run(program: str, database: str, url: str, *arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        str(binary(program)),
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=_environment(url),
    )
    try:
        _, output = await process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    if process.returncode:
        lines = output.decode(errors="replace").strip().splitlines()
        raise ProgramFailed(program, database, "\n".join(lines[:TAIL_LINES]))


def _environment(url: str) -> dict[str, str]:
    """Translates the URL of the services' driver into libpq's variables; no argument names a
    password.
    """
    parsed = make_url(url)
    mode = str(parsed.query.get("ssl") or parsed.query.get("sslmode") or "")
    values = {
        "PGHOST": parsed.host or str(parsed.query.get("host", "")),
        "PGPORT": str(parsed.port or parsed.query.get("port", "")),
        "PGUSER": parsed.username,
        "PGPASSWORD": str(parsed.password or ""),
        "PGDATABASE": parsed.database,
        "PGSSLMODE": "require" if mode == "true" else mode,
    }
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PG") or name.startswith("PGSSL")
    }
    return inherited | {name: value for name, value in values.items() if value}
