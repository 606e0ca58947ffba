"""The tables of a domain, as a model proposes them and SQLite keeps them.

Names and types are few on purpose: whatever fits these classes is a schema that SQLite takes.
"""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

Name = Annotated[str, Field(pattern="^[a-z][a-z0-9_]{0,39}$")]
Text = Annotated[str, Field(min_length=1, max_length=500)]
ROW_KEY = "id"


class Proposal(BaseModel):
    """Something a model proposes: nothing left out, nothing besides."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ColumnType(StrEnum):
    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"


SQL_TYPES = {ColumnType.TEXT: "TEXT", ColumnType.INTEGER: "INTEGER", ColumnType.NUMBER: "REAL"}
JSON_TYPES = {ColumnType.TEXT: "string", ColumnType.INTEGER: "integer", ColumnType.NUMBER: "number"}


class Column(Proposal):
    name: Name
    type: ColumnType
    description: Text
    choices: Annotated[list[Text], Field(max_length=12)]
    """The only values of a text; empty: any."""
    references: str
    """Table whose id it holds; empty: none."""


class Table(Proposal):
    name: Name
    description: Text
    columns: Annotated[list[Column], Field(min_length=1, max_length=12)]

    @model_validator(mode="after")
    def _different_names(self) -> "Table":
        names = [ROW_KEY, *(column.name for column in self.columns)]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"table {self.name} has column {sorted(twice)[0]} twice")
        return self

    def sql(self) -> str:
        columns = ", ".join([f'"{ROW_KEY}" TEXT PRIMARY KEY', *map(_column_sql, self.columns)])
        return f'CREATE TABLE "{self.name}" ({columns}) STRICT, WITHOUT ROWID'


class Schema(Proposal):
    """Tables; one is referred to only after it was named."""

    tables: Annotated[list[Table], Field(min_length=1, max_length=8)]

    @model_validator(mode="after")
    def _references_lead_back(self) -> "Schema":
        known: set[str] = set()
        for table in self.tables:
            if table.name in known:
                raise ValueError(f"table {table.name} comes twice")
            for column in table.columns:
                _check(table, column, known)
            known.add(table.name)
        return self


def row_schema(table: Table, ids: dict[str, list[str]], count: int) -> dict[str, Any]:
    """JSON Schema of `count` new rows; references can only be ids that are there."""
    columns = {column.name: _value_schema(column, ids) for column in table.columns}
    properties = {ROW_KEY: {"type": "string", "minLength": 1, "maxLength": 40}, **columns}
    row = object_schema(properties)
    rows = {"type": "array", "items": row, "minItems": count, "maxItems": count}
    return object_schema({"rows": rows})


def object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _check(table: Table, column: Column, known: set[str]) -> None:
    place = f"column {column.name} of {table.name}"
    if column.references and column.references not in known:
        raise ValueError(f"{place} refers to {column.references}, which no earlier table is")
    if (column.references or column.choices) and column.type is not ColumnType.TEXT:
        raise ValueError(f"{place} must be a text, because it has choices or refers to a table")


def _value_schema(column: Column, ids: dict[str, list[str]]) -> dict[str, Any]:
    values = ids[column.references] if column.references else column.choices
    if values:
        return {"enum": values}
    if column.type is ColumnType.TEXT:
        return {"type": "string", "minLength": 1, "maxLength": 200}
    return {"type": JSON_TYPES[column.type]}


def _column_sql(column: Column) -> str:
    sql = f'"{column.name}" {SQL_TYPES[column.type]} NOT NULL'
    if column.choices:
        listed = ", ".join("'" + choice.replace("'", "''") + "'" for choice in column.choices)
        sql += f' CHECK ("{column.name}" IN ({listed}))'
    return sql + (f' REFERENCES "{column.references}"' if column.references else "")
