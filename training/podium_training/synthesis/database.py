"""A domain's tables in SQLite: filled, called by tools, compared.

Tools' statements come from a model. They reach the tables and nothing else: no file, no
schema, no endless query.
"""

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from podium_kit.json_schemas.validators import validator_of
from podium_training.synthesis.domain import Domain, DomainTool
from podium_training.synthesis.schema import ROW_KEY, ColumnType, Schema

ROWS_MAX = 50
EXAMPLES = {ColumnType.TEXT: "", ColumnType.INTEGER: 0, ColumnType.NUMBER: 0.0}
# Virtual machine steps of one statement: some tenths of a second.
STEPS_MAX = 5_000_000
VALUE_BYTES_MAX = 1_000_000
READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
WRITING = READING | {sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE}
# What answers otherwise the next time would make two equal runs differ.
CHANCE = {"random", "randomblob", "current_date", "current_time", "current_timestamp", "unixepoch"}


class CallFailed(Exception):
    """A call did nothing; the message says why, for the model that made it."""


class Database:
    """The tables of one session; a context manager."""

    def __init__(self, tables: Schema, path: Path | None = None) -> None:
        self._tables = tables
        self._connection = sqlite3.connect(path or ":memory:", isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        self._connection.execute("PRAGMA foreign_keys = ON")
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)

    @classmethod
    def filled(cls, domain: Domain, path: Path | None = None) -> Self:
        database = cls(domain.tables, path)
        database.create()
        for table, rows in domain.entries.items():
            for row in rows:
                database.add(table, row)
        return database

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def create(self) -> None:
        for table in self._tables.tables:
            self._connection.execute(table.sql())

    def add(self, table: str, row: Mapping[str, Any]) -> None:
        names = ", ".join(f'"{name}"' for name in row)
        marks = ", ".join(f":{name}" for name in row)
        try:
            self._connection.execute(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', row)  # noqa: S608 names are the schema's
        except (sqlite3.Error, OverflowError) as error:
            raise CallFailed(f"{table} does not take {row.get(ROW_KEY)!r}: {error}") from error

    def call(self, tool: DomainTool, arguments: Mapping[str, Any]) -> Any:
        """Rows read, or how many were changed. Raises CallFailed, leaving all as it was."""
        validator = validator_of(tool.arguments_schema())
        if fault := next(validator.iter_errors(arguments), None):
            raise CallFailed(f"{tool.name}: {fault.message}")
        rows, changed = self._run(tool, tool.statement, arguments)
        if tool.writes and not changed:
            raise CallFailed(f"{tool.name}: nothing matches, so nothing was changed")
        return {"changed": changed} if tool.writes else rows

    def check(self, tool: DomainTool) -> None:
        """Compiles the statement and runs nothing. Raises CallFailed."""
        examples = {one.name: EXAMPLES[one.type] for one in tool.parameters}
        self._run(tool, f"EXPLAIN {tool.statement}", examples)

    def state(self) -> dict[str, list[dict[str, Any]]]:
        """Every row of every table, in the order of ids."""
        return {
            table.name: [
                dict(row)
                for row in self._connection.execute(f'SELECT * FROM "{table.name}" ORDER BY id')  # noqa: S608 names are the schema's
            ]
            for table in self._tables.tables
        }

    def _run(
        self, tool: DomainTool, statement: str, arguments: Mapping[str, Any]
    ) -> tuple[list[dict[str, Any]], int]:
        self._guard(WRITING if tool.writes else READING)
        try:
            cursor = self._connection.execute(statement, arguments)
            return [dict(row) for row in cursor.fetchmany(ROWS_MAX)], cursor.rowcount
        except (sqlite3.Error, sqlite3.Warning, OverflowError) as error:
            raise CallFailed(f"{tool.name}: {error}") from error
        finally:
            self._guard(None)

    def _guard(self, allowed: set[int] | None) -> None:
        """Lets statements do only these things, and not for long; None: anything."""

        def authorized(action: int, _: object, function: str | None, *__: object) -> int:
            fine = allowed is None or (action in allowed and function not in CHANCE)
            return sqlite3.SQLITE_OK if fine else sqlite3.SQLITE_DENY

        self._connection.set_authorizer(None if allowed is None else authorized)
        self._connection.set_progress_handler(None if allowed is None else lambda: 1, STEPS_MAX)
