import sqlite3
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from podium_training.synthesis.database import CallFailed, Database
from podium_training.synthesis.domain import Domain, DomainTool
from podium_training.synthesis.schema import Schema
from unit.podium_training.synthesis.library_domain import (
    FIND,
    LOANS,
    MEMBERS,
    RETURN,
    TABLES,
    make_domain,
)

DOMAIN = make_domain()
TABLE = TABLES["tables"][0]
COLUMN = TABLE["columns"][0]


def tool(statement: str, *parameters: str) -> DomainTool:
    listed = [{"name": name, "type": "text", "description": "?"} for name in parameters]
    fields = {"name": "t", "description": "?", "parameters": listed, "statement": statement}
    return DomainTool.model_validate(fields)


def test_tools_read_and_change_the_entries() -> None:
    with Database.filled(DOMAIN) as database:
        [found] = database.call(DomainTool.model_validate(FIND), {"who": "Bo Lind"})
        assert found == {"id": "l1", "title": "Dune", "status": "lent", "days": 11}
        returned = DomainTool.model_validate(RETURN)
        assert database.call(returned, {"loan": "l1"}) == {"changed": 1}
        state = database.state()
        assert state["loans"][1]["status"] == "returned"
        assert state["members"] == MEMBERS
        with pytest.raises(CallFailed, match="nothing matches"):
            database.call(returned, {"loan": "l1"})


@pytest.mark.parametrize(
    "arguments", [{}, {"who": 1}, {"who": "Bo Lind", "more": "x"}, {"whom": "Bo Lind"}]
)
def test_arguments_that_do_not_fit_are_rejected(arguments: dict[str, Any]) -> None:
    with Database.filled(DOMAIN) as database, pytest.raises(CallFailed, match="find_loans"):
        database.call(DomainTool.model_validate(FIND), arguments)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT random()",
        "SELECT load_extension('x')",
        "SELECT * FROM pragma_database_list",
        "SELECT 1; DELETE FROM loans",
        "WITH x AS (SELECT 1) DELETE FROM loans",
        "DELETE FROM sqlite_schema",
        "SELECT zeroblob(2000000)",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT count(*) FROM n",
        "INSERT INTO loans VALUES ('l9', 'nobody', 'Emma', 'lent', 1)",
        "INSERT INTO loans VALUES ('l9', 'm0', 'Emma', 'lost', 1)",
        "UPDATE loans SET days = 'many'",
    ],
)
def test_a_statement_that_wants_more_than_the_tables_fails_and_changes_nothing(
    statement: str,
) -> None:
    with Database.filled(DOMAIN) as database:
        with pytest.raises(CallFailed):
            database.call(tool(statement), {})
        assert database.state() == {"members": MEMBERS, "loans": LOANS}


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("SELECT :a", "differ in a"),
        ("DROP TABLE loans", "starts with 'drop'"),
        ("ATTACH 'x' AS y", "starts with 'attach'"),
        ("PRAGMA foreign_keys = OFF", "starts with 'pragma'"),
        ("SELECT date('now')", "differs at every call"),
    ],
)
def test_a_tool_that_cannot_be_one_is_rejected(statement: str, fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        tool(statement)


def test_checking_a_tool_runs_nothing() -> None:
    with Database.filled(DOMAIN) as database:
        database.check(tool("DELETE FROM loans"))
        assert database.state()["loans"] == LOANS
        with pytest.raises(CallFailed, match="no such table"):
            database.check(tool("SELECT * FROM books"))


@pytest.mark.parametrize(
    ("wrong", "fault"), [({"member": "nobody"}, "FOREIGN KEY"), ({"days": 2**63}, "too large")]
)
def test_entries_the_tables_do_not_take_are_rejected(wrong: dict[str, Any], fault: str) -> None:
    rows = {"members": MEMBERS, "loans": [LOANS[0] | wrong]}
    with pytest.raises(CallFailed, match=fault):
        Database.filled(DOMAIN.model_copy(update={"entries": rows}))


@pytest.mark.parametrize(
    ("tables", "fault"),
    [
        ([TABLE, TABLE], "table members comes twice"),
        ([TABLE | {"columns": [COLUMN, COLUMN]}], "has column name twice"),
        ([TABLE | {"columns": [COLUMN | {"name": "id"}]}], "has column id twice"),
        ([TABLE | {"columns": [COLUMN | {"references": "books"}]}], "refers to books"),
        ([TABLE | {"columns": [COLUMN | {"type": "integer", "choices": ["1"]}]}], "must be a text"),
        ([TABLE | {"name": 'x" (y); --'}], "pattern"),
    ],
)
def test_a_schema_that_sqlite_would_not_take_is_rejected(tables: list[Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        Schema.model_validate({"tables": tables})


def test_choices_with_quotes_are_values_and_no_sql(tmp_path: Path) -> None:
    column = COLUMN | {"choices": ["it's", 'b"); DROP TABLE members; --']}
    tables = Schema.model_validate({"tables": [TABLE | {"columns": [column]}]})
    path = tmp_path / "db"
    with Database(tables, path) as database:
        database.create()
        database.add("members", {"id": "1", "name": "it's"})
        assert database.state() == {"members": [{"id": "1", "name": "it's"}]}
    with sqlite3.connect(path) as again:
        assert again.execute("SELECT count(*) FROM members").fetchone() == (1,)


def test_a_domain_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "domain.json"
    path.write_text(DOMAIN.model_dump_json())
    assert Domain.read(path) == DOMAIN
    path.write_text("{}")
    with pytest.raises(ValueError, match="holds no domain"):
        Domain.read(path)
