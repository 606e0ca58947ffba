"""Read-only SQL over the sample database, in a process for each query."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

from pydantic import Field

from podium_functions.errors import invalid, limit_exceeded
from podium_functions.sample_database import TOO_LARGE, TOO_LONG, sample_database
from podium_kit.helper_processes import end, exchange, start
from podium_kit.text import unfenced

READER = "podium_functions.sql_reader"
# The reader ends by itself before, unless what it does cannot be interrupted.
PROCESS_TIMEOUT_S = 14.0
ANSWER_BYTES_MAX = 32 * 1024 * 1024

Sql = Annotated[
    str, Field(description="One SELECT statement in DuckDB's SQL.", min_length=1, max_length=4000)
]


def query_database(sql: Sql) -> dict[str, Any]:
    # A loop of its own, for callers that have one as well as for those that have none.
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(lambda: asyncio.run(queried(sql))).result()


async def queried(sql: Sql) -> dict[str, Any]:
    """The process ends with the call, also when it is cancelled."""
    answer = await _read(unfenced(sql))
    if fault := answer.get("invalid"):
        raise invalid(fault)
    if limit := answer.get("limit"):
        raise limit_exceeded(limit)
    return answer


async def _read(sql: str) -> dict[str, Any]:
    database = await asyncio.to_thread(sample_database)
    process = await start(READER, arguments=[str(database)], files=(database,))
    try:
        async with asyncio.timeout(PROCESS_TIMEOUT_S):
            written = await exchange(process, sql.encode(errors="replace"), ANSWER_BYTES_MAX)
    except TimeoutError:
        return {"limit": TOO_LONG}
    finally:
        await end(process)
    answer: dict[str, Any] = json.loads(written) if written else {"limit": TOO_LARGE}
    return answer
