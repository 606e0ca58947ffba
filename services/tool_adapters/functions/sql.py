"""Read-only SQL over the sample database, in a process for each query."""

import json
import os
import subprocess
import sys
from typing import Annotated, Any

from pydantic import Field

from tool_adapters.fences import unfenced
from tool_adapters.functions.errors import invalid, limit_exceeded
from tool_adapters.functions.sample_database import sample_database
from tool_adapters.functions.sql_limits import TOO_LARGE, TOO_LONG

READER = "tool_adapters.functions.sql_reader"
# The reader ends by itself before, unless what it does cannot be interrupted.
PROCESS_TIMEOUT_S = 14.0


def query_database(
    sql: Annotated[
        str,
        Field(description="One SELECT statement in DuckDB's SQL.", min_length=1, max_length=4000),
    ],
) -> dict[str, Any]:
    """Rows of one SELECT over the sample database, at most 100."""
    answer = _read(unfenced(sql))
    if fault := answer.get("invalid"):
        raise invalid(fault)
    if limit := answer.get("limit"):
        raise limit_exceeded(limit)
    return answer


def _read(sql: str) -> dict[str, Any]:
    """With nothing of our environment but where Python's modules are."""
    database = sample_database()
    try:
        process = subprocess.run(  # noqa: S603  our own program
            [sys.executable, "-m", READER, str(database)],
            input=sql.encode(errors="replace"),
            capture_output=True,
            pass_fds=(database,),
            env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            timeout=PROCESS_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"limit": TOO_LONG}
    if process.returncode:
        return {"limit": TOO_LARGE}
    answer: dict[str, Any] = json.loads(process.stdout)
    return answer
