"""Read-only SQL over the sample database, by DuckDB."""

import math
from datetime import date, datetime
from decimal import Decimal
from threading import Timer
from typing import Annotated, Any

import duckdb
from pydantic import Field

from tool_adapters.fences import unfenced
from tool_adapters.functions.errors import invalid, limit_exceeded
from tool_adapters.functions.sample_database import TABLES, sample_database

ROWS_MAX = 100
CELL_CHARACTERS_MAX = 10_000
QUERY_TIMEOUT_S = 5.0


def query_database(
    sql: Annotated[
        str,
        Field(description="One SELECT statement in DuckDB's SQL.", min_length=1, max_length=4000),
    ],
) -> dict[str, Any]:
    """Rows of one SELECT over the sample database, at most 100."""
    sql = unfenced(sql)
    cursor = sample_database().cursor()
    _require_one_select(cursor, sql)
    watchdog = Timer(QUERY_TIMEOUT_S, cursor.interrupt)
    watchdog.start()
    try:
        return _rows(cursor.execute(sql))
    except duckdb.InterruptException as error:
        raise limit_exceeded(
            f"the query ran longer than {QUERY_TIMEOUT_S:g} s; filter or aggregate more"
        ) from error
    except duckdb.OutOfMemoryException as error:
        raise limit_exceeded("the query needs too much memory; filter or aggregate more") from error
    except duckdb.Error as error:
        raise invalid(_fault(error)) from error
    finally:
        watchdog.cancel()
        cursor.close()


def _require_one_select(cursor: duckdb.DuckDBPyConnection, sql: str) -> None:
    try:
        statements = cursor.extract_statements(sql)
    except duckdb.Error as error:
        raise invalid(_fault(error)) from error
    kinds = [statement.type for statement in statements]
    if kinds != [duckdb.StatementType.SELECT]:
        raise invalid("give exactly one SELECT statement; the database is read-only")


def _fault(error: duckdb.Error) -> str:
    """The first line says what; the drawing of the place below it is no help to a model."""
    words = " ".join(str(error).partition("\n\nLINE")[0].split())
    help_ = ", ".join(TABLES) if isinstance(error, duckdb.CatalogException) else ""
    return f"the query is wrong: {words}" + (f" The tables are {help_}." if help_ else "")


def _rows(cursor: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    columns = [column[0] for column in cursor.description or ()]
    fetched = cursor.fetchmany(ROWS_MAX + 1)
    rows = [[_json(value) for value in row] for row in fetched[:ROWS_MAX]]
    return {"columns": columns, "rows": rows, "truncated": len(fetched) > ROWS_MAX}


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
        raise limit_exceeded(f"a value is longer than {CELL_CHARACTERS_MAX} characters; shorten it")
    return value
