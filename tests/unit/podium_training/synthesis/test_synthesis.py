"""Domains made by a language model: their tables, their steps, their filters."""

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner, Result

from openai_server import OpenAiServer, Reply
from podium_cli.app import app
from podium_training.synthesis.database import CallFailed, Database
from podium_training.synthesis.domain import Domain, DomainTool
from podium_training.synthesis.schema import Schema
from podium_training.tasks.task import Task
from unit.podium_training.synthesis.library_domain import (
    FIND,
    LOANS,
    MEMBERS,
    RETURN,
    TABLES,
    make_domain,
    make_draft,
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


RUNNER = CliRunner()
FINE = {"fault": ""}
DRAFTS: dict[str, Any] = {
    "gives a book back": make_draft(),
    "asks for nothing new": make_draft(
        instruction="I am Ada Reed. I had Emma for 10 days, is that right?",
        calls=[{"tool": "find_loans", "arguments": {"who": "Ada Reed"}}],
    ),
    "gives back what is not lent": make_draft(
        instruction="Please take back the loan l9, I do not need it any more.",
        calls=[{"tool": "return_book", "arguments": {"loan": "l9"}}],
        say=[],
    ),
    "wants what no call gives": make_draft(
        instruction="I am Bo Lind. Take Dune back, and who wrote it?",
        calls=[{"tool": "return_book", "arguments": {"loan": "l1"}}],
        say=["Frank Herbert"],
    ),
    "asks too much": make_draft(
        instruction="I am Cy Ott. Take Ulysses back and say its days.",
        calls=[
            {"tool": "find_loans", "arguments": {"who": "Cy Ott"}},
            {"tool": "return_book", "arguments": {"loan": "l2"}},
        ],
        say=["12"],
    ),
}
SOLUTION = [
    {"tool": "find_loans", "arguments": {"who": "Ada Reed"}},
    {"tool": "return_book", "arguments": {"loan": "l0"}},
    {"answer": "Emma is back; you had it for 10 days."},
]


class LibraryModel:
    """Says at every step what a good model would, and fails where the draft is one to reject."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def __call__(self, body: Any) -> Any:
        prompt = body["messages"][0]["content"]
        for start, reply in self.replies().items():
            if start in prompt:
                self.asked[start] += 1
                return reply(prompt) if callable(reply) else reply
        raise AssertionError(prompt)

    def replies(self) -> dict[str, Any]:
        return {
            "Is it natural for the domain": FINE,
            "Are they natural": FINE,
            "Design the database": TABLES,
            "new rows of table members": {"rows": MEMBERS},
            "new rows of table loans": {"rows": LOANS},
            "Write 4 to 10 tools": {"tools": [FIND, RETURN, RETURN | {"name": "drop"} | DROP]},
            "different things a customer may want": {"intents": [*DRAFTS, "Gives a book back."]},
            "Write a harder version": harder,
            "A customer wants": lambda prompt: DRAFTS[
                prompt.partition("wants: ")[2].split("\n")[0]
            ],
            "You have no tools now": {"answer": "I cannot know that."},
            "You have these tools": solve,
        }


DROP = {"statement": "DROP TABLE loans WHERE id = :loan"}


def drafted(prompt: str) -> Any:
    return DRAFTS[prompt.partition("wants: ")[2].split("\n")[0]]


def harder(prompt: str) -> Any:
    draft = json.loads(prompt.partition("task for its agent:\n")[2].split("\n")[0])
    return draft | {"instruction": draft["instruction"] + " Thank you."}


def solve(prompt: str) -> Any:
    if "Cy Ott" in prompt:
        return {"answer": "That is beyond me."}
    return SOLUTION[prompt.count("You called")]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> "Finished":
    model = LibraryModel()
    with OpenAiServer([model] * 200) as server:
        out = tmp_path_factory.mktemp("synthesis") / "library"
        ended = run(server, out, "--input-price", "1", "--output-price", "2")
        return Finished(ended, out, model, list(server.requests))


class Finished:
    def __init__(
        self, ended: Result, out: Path, model: LibraryModel, requests: list[dict[str, Any]]
    ) -> None:
        assert ended.exit_code == 0, ended.stderr
        self.told = json.loads(ended.stdout)
        self.out, self.model, self.requests = out, model, requests
        self.tasks = [
            Task.from_json(line) for line in (out / "tasks.jsonl").read_text().splitlines()
        ]


def run(server: OpenAiServer, out: Path, *options: str) -> Result:
    arguments = ["--domain", "A city library", "--model-url", server.base_url]
    arguments += ["--model", "scripted-model", "--count", "5", "--rounds", "1"]
    arguments += ["--output", str(out)]
    return RUNNER.invoke(app, ["train", "synthesize", *arguments, "--json", *options])


def test_only_the_task_that_passes_every_filter_is_kept(finished: Finished) -> None:
    [task] = finished.tasks
    assert task.question == DRAFTS["gives a book back"]["instruction"] + " Thank you."
    assert [call.tool for call in task.solution or ()] == [
        "a_city_library_find_loans",
        "a_city_library_return_book",
    ]
    assert task.parameters["say"] == ["10"]
    assert task.judging_tools == ("a_city_library_state",)


def test_every_rejection_is_counted_by_its_reason(finished: Finished) -> None:
    assert finished.told["rejected"] == {
        "tool unusable": 1,
        "intent repeated": 1,
        "golden call fails": 1,
        "information no call gives": 1,
        "solvable without any action": 1,
        "not solved in any attempt": 1,
    }


def test_the_domain_is_what_the_model_proposed_and_the_checks_took(finished: Finished) -> None:
    domain = Domain.read(finished.out / "domain.json")
    assert domain.entries == {"members": MEMBERS, "loans": LOANS}
    assert [tool.name for tool in domain.tools] == ["find_loans", "return_book"]


def test_every_question_is_asked_with_a_schema_and_a_seed_of_its_own(finished: Finished) -> None:
    formats = [request["response_format"] for request in finished.requests]
    assert {each["type"] for each in formats} == {"json_schema"}
    seeds = [request["seed"] for request in finished.requests]
    assert len(set(seeds)) == len(seeds)


def test_the_task_nobody_solves_was_tried_eight_times(finished: Finished) -> None:
    asked = [each["messages"][0]["content"] for each in finished.requests]
    tried = [prompt for prompt in asked if "You have these tools" in prompt and "Cy Ott" in prompt]
    assert len(tried) == 8


def test_tokens_are_priced_and_no_price_is_unknown(finished: Finished, tmp_path: Path) -> None:
    tokens = finished.told["tokens"]
    expected = (tokens["prompt"] + 2 * tokens["completion"]) / 1_000_000
    assert float(finished.told["cost"]) == pytest.approx(expected)
    with OpenAiServer([LibraryModel()] * 200) as server:
        assert json.loads(run(server, tmp_path / "x").stdout)["cost"] is None


def test_a_run_that_broke_off_goes_on_and_ends_as_one_that_did_not(
    finished: Finished, tmp_path: Path
) -> None:
    out = tmp_path / "library"
    model = LibraryModel()
    with OpenAiServer([model] * 12 + [Reply("no more", status=402)] * 20) as server:
        broken = run(server, out)
        assert broken.exit_code == 1
        assert "402" in broken.stderr
    assert not (out / "tasks.jsonl").exists()
    # The machine went down in the middle of a line.
    with (out / "replies.jsonl").open("a") as file:
        file.write('{"key": "torn')
    with OpenAiServer([model] * 200) as server:
        resumed = json.loads(run(server, out).stdout)
        assert resumed["replies_asked"] == len(server.requests)
        assert len(server.requests) == len(finished.requests) - 12
        # All there is was said: nothing is asked again.
        assert json.loads(run(server, out).stdout)["replies_asked"] == 0
    for name in ("tasks.jsonl", "domain.json"):
        assert (out / name).read_text() == (finished.out / name).read_text()


@pytest.mark.parametrize("line", ["no JSON", "[]", '{"key": "k"}', '{"key": "k", "reply": 1}'])
def test_a_journal_that_was_damaged_is_named_with_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "replies.jsonl").write_text(f'{{"key": "k", "reply": {{}}}}\n{line}\n')
    with OpenAiServer() as server:
        ended = run(server, tmp_path)
    assert ended.exit_code == 2
    assert "replies.jsonl, line 2" in json.loads(ended.stderr)["error"]["cause"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with OpenAiServer() as server:
        ended = run(server, tmp_path / "file" / "library")
    assert ended.exit_code == 2
    assert "cannot be made" in ended.stderr


@pytest.mark.parametrize(
    ("reply", "fault"),
    [("[" * 100_000, "nested too deeply"), ('{"tables": "\\ud800"}', "surrogates not allowed")],
)
def test_a_reply_that_python_cannot_hold_is_asked_again(
    tmp_path: Path, reply: str, fault: str
) -> None:
    with OpenAiServer([reply, *[LibraryModel()] * 200]) as server:
        assert run(server, tmp_path / "library").exit_code == 0
        second = server.requests[1]["messages"]
    assert fault in second[-1]["content"]


def test_a_reply_that_makes_no_sense_is_asked_again_with_its_fault(tmp_path: Path) -> None:
    model = LibraryModel()
    twice = {"tables": TABLES["tables"] * 2}
    with OpenAiServer(["no JSON", twice, *[model] * 200]) as server:
        assert run(server, tmp_path / "library").exit_code == 0
        third = server.requests[2]["messages"]
    assert "table members comes twice" in third[-1]["content"]


def test_a_model_that_never_gives_a_valid_reply_ends_the_run_with_its_error(tmp_path: Path) -> None:
    with OpenAiServer(["no JSON"] * 5) as server:
        ended = run(server, tmp_path / "library")
    assert ended.exit_code == 1
    assert "schema/0" in ended.stderr
    assert "stronger model" in ended.stderr


def test_an_address_that_is_none_is_named(tmp_path: Path) -> None:
    with OpenAiServer() as server:
        ended = run(server, tmp_path / "library", "--model-url", "http://host:port/v1")
    assert ended.exit_code == 1
    assert "http://host:port/v1" in ended.stderr


def test_a_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with OpenAiServer([Reply("gone", status=404)]) as server:
        ended = run(server, tmp_path / "library")
        assert ended.exit_code == 1
        assert server.base_url in ended.stderr


@pytest.mark.parametrize("prices", [("--input-price", "1"), ("--output-price", "cheap")])
def test_half_a_price_is_rejected(prices: tuple[str, ...], tmp_path: Path) -> None:
    with OpenAiServer() as server:
        ended = run(server, tmp_path / "library", *prices)
    assert ended.exit_code == 2
    assert "both prices" in ended.stderr
