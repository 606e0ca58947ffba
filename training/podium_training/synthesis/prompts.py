import json
from collections.abc import Sequence
from typing import Any

from podium_training.synthesis.domain import Domain, DomainTool
from podium_training.synthesis.draft import Draft
from podium_training.synthesis.schema import Schema, Table

SCHEMA = """Design the database of a service for: {subject}.

Give 2 to 5 tables that people of this domain would keep, each with 2 to 8 columns. Every table \
has a text column "id" already; leave it out. A column that refers to another table holds that \
table's id as text, and its table comes later in the list. Give choices for every column with \
few possible values, such as a status. Names are lower case with underscores."""

SCHEMA_REVIEW = """Here is the database of a service for: {subject}.

{tables}

Is it natural for the domain, consistent, and enough for requests that read and change things? \
Name its worst fault in one sentence, or leave the fault empty if it is good."""

ENTRIES = """Here is the database of a service for: {subject}.

{tables}

Rows that are there already:
{rows}

Write {count} new rows of table {table}. They must be natural, consistent with the rows above and \
different from them. Ids are short, like "{table}-12"."""

ENTRIES_REVIEW = """Here are new rows of table {table} in the database of a service for: {subject}.

{table_text}
{rows}

Are they natural, and do their values agree with each other? Name the worst fault in one \
sentence, or leave the fault empty if they are good."""

TOOLS = """Here is the database of a service for: {subject}.

{tables}

Write 4 to 10 tools for an agent of this service: some that look things up, some that change \
things. Each is one SQLite statement (SELECT, INSERT, UPDATE or DELETE) whose named parameters \
(:like_this) are exactly the tool's parameters. A statement that changes things must change \
nothing when its conditions do not hold. Use no dates of today and no random values."""

INTENTS = """A service for {subject} offers these tools:
{tools}

Write {count} different things a customer may want from it, each in one sentence without names \
and numbers. Some only ask, most change something, and several need more than one tool.{known}"""

TASK = """A service for {subject} offers these tools:
{tools}

Its database holds, among others:
{rows}

A customer wants: {intent}

Write the task: the customer's instruction to an agent, with every name and number the agent \
needs to find the right rows, but without naming tools or ids the customer cannot know; the calls \
that carry it out, in order, which must work on the database as it is; and the pieces of \
information the customer must be told, as short as they stand in the results (empty if only a \
change is wanted)."""

EVOLVE = """A service for {subject} offers these tools:
{tools}

Its database holds, among others:
{rows}

Here is a task for its agent:
{task}

Write a harder version: one more condition, entity or step, so that it needs more or other calls. \
The calls must work on the database as it is, and the instruction must say all they need."""

SOLVE = """You are the agent of a service for {subject}. You have these tools:
{tools}

The customer says: {instruction}

{done}
Reply with the next call, or with the answer to the customer when everything is done. The answer \
names the facts the customer asked for."""

ANSWER = """You are the agent of a service for {subject}. You have no tools now.

The customer says: {instruction}

Answer as well as you can."""


def tables_text(tables: Schema) -> str:
    return "\n".join(map(table_text, tables.tables))


def table_text(table: Table) -> str:
    lines = [f"{table.name}: {table.description}", "- id (text)"]
    for column in table.columns:
        about = f"- {column.name} ({column.type}): {column.description}"
        about += f"; one of {', '.join(column.choices)}" if column.choices else ""
        lines.append(about + (f"; id of {column.references}" if column.references else ""))
    return "\n".join(lines)


def tools_text(tools: Sequence[DomainTool]) -> str:
    return "\n".join(
        f"- {tool.name}({', '.join(f'{one.name}: {one.type}' for one in tool.parameters)}): "
        f"{tool.description}"
        for tool in tools
    )


def rows_text(rows: dict[str, list[dict[str, Any]]]) -> str:
    lines = []
    for table, entries in rows.items():
        lines += [f"{table}:", *(json.dumps(entry, ensure_ascii=False) for entry in entries)]
    return "\n".join(lines)


def solve_text(
    domain: Domain, tools: Sequence[DomainTool], draft: Draft, done: Sequence[tuple[Any, Any]]
) -> str:
    lines = [f"You called {json.dumps(call)} and got {json.dumps(got)}." for call, got in done]
    return SOLVE.format(
        subject=domain.subject,
        tools=tools_text(tools),
        instruction=draft.instruction,
        done="\n".join([*lines, ""]) if lines else "",
    )
