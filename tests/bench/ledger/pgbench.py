import asyncio
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import make_url

from podium_kit.embedded.postgres_cluster import SUPERUSER, binary

CLIENTS = 8
SECONDS = 8
TPS = re.compile(r"tps = ([0-9.]+)")


async def rate(
    database_url: str,
    script: str,
    *,
    clients: int = CLIENTS,
    variables: Mapping[str, int] | None = None,
    transactions: int = 0,
    user: str = SUPERUSER,
    settings: Mapping[str, str] | None = None,
) -> float:
    """Runs of the script per second, prepared, over two threads.

    For a fixed time, or for so many `transactions` per client; `settings` are the sessions'.
    """
    url = make_url(database_url)
    with tempfile.TemporaryDirectory(prefix="podium-pgbench-") as folder:
        path = Path(folder) / "script.sql"
        path.write_text(script)
        length = ("-t", str(transactions)) if transactions else ("-T", str(SECONDS))
        process = await asyncio.create_subprocess_exec(
            str(binary("pgbench")),
            *("-n", "-M", "prepared", "-c", str(clients), "-j", "2", *length),
            *(f"-D{name}={value}" for name, value in (variables or {}).items()),
            *("-h", str(url.query["host"]), "-U", user, "-f", str(path), str(url.database)),
            env=os.environ | {"PGOPTIONS": _options(settings or {})},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await process.communicate()
    found = TPS.search(output.decode())
    if process.returncode or not found:
        raise RuntimeError(f"pgbench failed: {errors.decode()[-2000:]}")
    return float(found[1])


def _options(settings: Mapping[str, str]) -> str:
    return " ".join(f"-c {name}={value}" for name, value in settings.items())
