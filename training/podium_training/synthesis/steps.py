"""The steps that make a domain and its drafts (ToolScale in the paper)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from podium_training.synthesis import prompts
from podium_training.synthesis.database import CallFailed, Database
from podium_training.synthesis.domain import Domain, DomainTool
from podium_training.synthesis.draft import Draft, draft_schema
from podium_training.synthesis.filters import Rejection, Rejections
from podium_training.synthesis.model import ChatModel, NoGoodReply
from podium_training.synthesis.schema import ROW_KEY, Proposal, Schema, Table, Text, row_schema

B = TypeVar("B", bound=BaseModel)
ROWS_PER_CALL = 3
TRIES = 3
TOOLS_SHOWN, ROWS_SHOWN = 6, 3


class Review(Proposal):
    fault: Annotated[str, Field(max_length=300)]


class Tools(Proposal):
    tools: Annotated[list[dict[str, Any]], Field(min_length=2, max_length=12)]


class Intents(Proposal):
    intents: Annotated[list[Text], Field(min_length=1, max_length=20)]


@dataclass
class Steps:
    """Asks one model to make things and another, which may be the same, to check them."""

    model: ChatModel
    checker: ChatModel
    subject: str
    seed: int
    rejections: Rejections = field(default_factory=Rejections)

    async def schema(self) -> Schema:
        """Tables that the checker finds natural. Raises NoGoodReply."""
        prompt = prompts.SCHEMA.format(subject=self.subject)
        for number in range(TRIES):
            tables = await self._ask(f"schema/{number}", prompt, Schema)
            about = prompts.tables_text(tables)
            review = prompts.SCHEMA_REVIEW.format(subject=self.subject, tables=about)
            if not (fault := await self._fault(f"schema/{number}/review", review)):
                return tables
            prompt = f"{prompts.SCHEMA.format(subject=self.subject)}\nAvoid this fault: {fault}"
        raise NoGoodReply(f"schema: the checker accepts none of {TRIES}: {fault}")

    async def entries(self, tables: Schema, rounds: int) -> dict[str, list[dict[str, Any]]]:
        """Rows of every table, some per round, that the tables and the checker accept.

        Raises NoGoodReply when a table stays empty.
        """
        with Database(tables) as database:
            database.create()
            for number in range(rounds):
                for table in tables.tables:
                    await self._add_rows(f"entries/{number}/{table.name}", tables, table, database)
            state = database.state()
        if empty := [name for name, rows in state.items() if not rows]:
            raise NoGoodReply(f"entries: table {empty[0]} stays empty")
        return state

    async def tools(self, tables: Schema) -> list[DomainTool]:
        """Tools whose statements the tables take. Raises NoGoodReply when there are too few."""
        prompt = prompts.TOOLS.format(subject=self.subject, tables=prompts.tables_text(tables))
        schema = Tools.model_json_schema()
        schema["properties"]["tools"]["items"] = DomainTool.model_json_schema()
        schema["$defs"] = schema["properties"]["tools"]["items"].pop("$defs")

        def read(reply: dict[str, Any]) -> list[DomainTool]:
            found = [self._tool(tables, each) for each in reply["tools"]]
            usable = {tool.name: tool for tool in found if isinstance(tool, DomainTool)}
            faults = [each for each in found if isinstance(each, str)]
            if not any(tool.writes for tool in usable.values()):
                raise ValueError(f"no usable tool changes anything; {'; '.join(faults)[:500]}")
            self.rejections[Rejection.TOOL_UNUSABLE] += len(faults)
            return list(usable.values())

        return await self.model.ask("tools", prompt, schema, read)

    async def intents(self, domain: Domain, count: int) -> list[str]:
        """Different wishes, at most `count`; fewer where there are no more. Raises NoGoodReply."""
        found: dict[str, str] = {}
        for number in range(TRIES * count):
            known = "".join(f"\nKnown already: {each}" for each in found.values())
            prompt = prompts.INTENTS.format(
                subject=self.subject,
                tools=prompts.tools_text(domain.tools),
                count=min(count, 10),
                known=known,
            )
            before = len(found)
            for intent in (await self._ask(f"intents/{number}", prompt, Intents)).intents:
                key = " ".join(intent.casefold().split()).strip(".")
                self.rejections[Rejection.INTENT_REPEATED] += key in found
                found.setdefault(key, intent)
            if len(found) >= count or len(found) == before:
                break
        return list(found.values())[:count]

    async def draft(self, domain: Domain, name: str, intent: str) -> Draft:
        """A task for the intent, with some tools and rows by chance. Raises NoGoodReply."""
        tools, shown = self._sample(domain, name)
        prompt = prompts.TASK.format(
            subject=self.subject, tools=prompts.tools_text(tools), rows=shown, intent=intent
        )
        return await self._draft(name, prompt, tools)

    async def evolved(self, domain: Domain, name: str, draft: Draft) -> Draft:
        """A harder version; the task itself where there is none."""
        tools, shown = self._sample(domain, name)
        prompt = prompts.EVOLVE.format(
            subject=self.subject,
            tools=prompts.tools_text(tools),
            rows=shown,
            task=draft.model_dump_json(),
        )
        try:
            return await self._draft(name, prompt, tools)
        except NoGoodReply:
            self.rejections[Rejection.NOT_EVOLVED] += 1
            return draft

    async def _draft(self, name: str, prompt: str, tools: list[DomainTool]) -> Draft:
        return await self.model.ask(name, prompt, draft_schema(tools), Draft.model_validate)

    def _sample(self, domain: Domain, name: str) -> tuple[list[DomainTool], str]:
        """Tools, and rows of every table that a task may be about."""
        random = Random(f"{self.seed}/{name}")  # noqa: S311 chance, not a secret
        tools = random.sample(domain.tools, min(TOOLS_SHOWN, len(domain.tools)))
        rows = {
            table: random.sample(rows, min(ROWS_SHOWN, len(rows)))
            for table, rows in domain.entries.items()
        }
        return tools, prompts.rows_text(rows)

    async def _add_rows(self, step: str, tables: Schema, table: Table, database: Database) -> None:
        state = database.state()
        ids = {name: [row[ROW_KEY] for row in rows] for name, rows in state.items()}
        if any(column.references and not ids[column.references] for column in table.columns):
            self.rejections[Rejection.ROWS_UNUSABLE] += ROWS_PER_CALL
            return
        prompt = prompts.ENTRIES.format(
            subject=self.subject,
            tables=prompts.tables_text(tables),
            rows=prompts.rows_text(state),
            count=ROWS_PER_CALL,
            table=table.name,
        )
        try:
            schema = row_schema(table, ids, ROWS_PER_CALL)
            rows = await self.model.ask(step, prompt, schema, _fitting(tables, table, state))
        except NoGoodReply:
            self.rejections[Rejection.ROWS_UNUSABLE] += ROWS_PER_CALL
            return
        review = prompts.ENTRIES_REVIEW.format(
            subject=self.subject,
            table=table.name,
            table_text=prompts.table_text(table),
            rows=prompts.rows_text({table.name: rows}),
        )
        if await self._fault(f"{step}/review", review):
            self.rejections[Rejection.ROWS_NOT_NATURAL] += len(rows)
            return
        for row in rows:
            database.add(table.name, row)

    def _tool(self, tables: Schema, proposed: dict[str, Any]) -> DomainTool | str:
        """The tool, or why it cannot be used: the tables must take it."""
        try:
            tool = DomainTool.model_validate(proposed)
            with Database(tables) as database:
                database.create()
                database.check(tool)
        except (ValidationError, CallFailed) as error:
            return f"{proposed.get('name')}: {_short(error)}"
        return tool

    async def _fault(self, step: str, prompt: str) -> str:
        review = Review.model_json_schema()
        return (await self.checker.ask(step, prompt, review, Review.model_validate)).fault.strip()

    async def _ask(self, step: str, prompt: str, kind: type[B]) -> B:
        return await self.model.ask(step, prompt, kind.model_json_schema(), kind.model_validate)


def _fitting(
    tables: Schema, table: Table, state: dict[str, list[dict[str, Any]]]
) -> Callable[[dict[str, Any]], list[dict[str, Any]]]:
    """Reads rows that the tables take beside those that are there."""

    def read(reply: dict[str, Any]) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = reply["rows"]
        with Database(tables) as trial:
            trial.create()
            try:
                for name, row in _in_order(tables, state, table.name, rows):
                    trial.add(name, row)
            except CallFailed as error:
                raise ValueError(str(error)) from error
        return rows

    return read


def _in_order(
    tables: Schema,
    state: dict[str, list[dict[str, Any]]],
    name: str,
    rows: Sequence[dict[str, Any]],
) -> list[tuple[str, dict[str, Any]]]:
    before = [(one.name, row) for one in tables.tables for row in state[one.name]]
    return before + [(name, row) for row in rows]


def _short(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(fault["msg"] for fault in error.errors(include_input=False))
    return str(error)
