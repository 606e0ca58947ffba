"""A process of its own for one query of the sample database: SQL on standard input, JSON on
standard output.

DuckDB's limit of memory does not count texts while they are calculated, so one SELECT can ask
for any; here that is this process's memory. The database is open read-only, with external
access off and the configuration locked: no statement can reach a file, the network or an
extension. Answers {"columns", "rows", "truncated"}, {"invalid": words} or {"limit": words}.
"""

import json
import math
import resource
import sys
from datetime import date, datetime
from decimal import Decimal
from threading import Timer
from typing import Any

import duckdb

from podium_functions.sample_database import QUERY_TIMEOUT_S, TOO_LARGE, TOO_LONG

ROWS_MAX = 100
CELL_CHARACTERS_MAX = 10_000
ANSWER_CHARACTERS_MAX = 4_000_000
# Of addresses, of which DuckDB and its threads reserve two thirds and use a tenth.
MEMORY_BYTES_MAX = 1280 * 1024**2
LOCKDOWN: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "memory_limit": "256MB",
    "max_temp_directory_size": "0MB",
    "threads": "2",
}


class Invalid(Exception):
    pass


class LimitExceeded(Exception):
    pass


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    sys.stdout.write(json.dumps(answer(sys.stdin.buffer.read().decode(), int(sys.argv[1]))))


def answer(sql: str, database: int) -> dict[str, Any]:
    try:
        with opened(database) as connection:
            return queried(connection, sql)
    except Invalid as error:
        return {"invalid": str(error)}
    except LimitExceeded as error:
        return {"limit": str(error)}
    except (MemoryError, duckdb.OutOfMemoryException):
        return {"limit": TOO_LARGE}


def opened(database: int) -> duckdb.DuckDBPyConnection:
    path = f"/proc/self/fd/{database}"
    connection = duckdb.connect(path, read_only=True, config=LOCKDOWN)
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET lock_configuration = true")
    return connection


def queried(database: duckdb.DuckDBPyConnection, sql: str) -> dict[str, Any]:
    _require_one_select(database, sql)
    watchdog = Timer(QUERY_TIMEOUT_S, database.interrupt)
    watchdog.start()
    try:
        return _rows(database.execute(sql))
    except duckdb.InterruptException as error:
        raise LimitExceeded(TOO_LONG) from error
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        raise Invalid(_fault(database, error)) from error
    finally:
        watchdog.cancel()


def _require_one_select(database: duckdb.DuckDBPyConnection, sql: str) -> None:
    try:
        statements = database.extract_statements(sql)
    except duckdb.Error as error:
        raise Invalid(_fault(database, error)) from error
    kinds = [statement.type for statement in statements]
    if kinds != [duckdb.StatementType.SELECT]:
        raise Invalid("give exactly one SELECT statement; the database is read-only")


def _fault(database: duckdb.DuckDBPyConnection, error: duckdb.Error) -> str:
    """The first line says what; the drawing of the place below it is no help to a model."""
    words = " ".join(str(error).partition("\n\nLINE")[0].split())
    if not isinstance(error, duckdb.CatalogException):
        return f"the query is wrong: {words}"
    tables = database.execute(
        "SELECT table_name FROM duckdb_tables() ORDER BY table_oid"
    ).fetchall()
    return f"the query is wrong: {words} The tables are {', '.join(name for (name,) in tables)}."


def _rows(database: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    columns = [column[0] for column in database.description or ()]
    rows: list[list[object]] = []
    characters = 0
    while (row := database.fetchone()) is not None:
        if len(rows) == ROWS_MAX:
            return {"columns": columns, "rows": rows, "truncated": True}
        rows.append([_json(value) for value in row])
        characters += sum(len(value) for value in rows[-1] if isinstance(value, str))
        if characters > ANSWER_CHARACTERS_MAX:
            most = f"{ANSWER_CHARACTERS_MAX} characters"
            raise LimitExceeded(f"the answer is longer than {most}; select less")
    return {"columns": columns, "rows": rows, "truncated": False}


def _json(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, date | datetime):
        return value.isoformat()
    return _text(str(value))


def _text(value: str) -> str:
    if len(value) > CELL_CHARACTERS_MAX:
        raise LimitExceeded(f"a value is longer than {CELL_CHARACTERS_MAX} characters; shorten it")
    return value


if __name__ == "__main__":
    main()
