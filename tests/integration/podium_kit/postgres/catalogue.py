from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import asyncpg

# One row for each promise: of which table or function, which promise, and in which words.
COLUMNS = """
    SELECT c.relname, format('column %I', a.attname), concat_ws(' ',
        format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'NOT NULL' END,
        CASE WHEN a.atthasdef OR a.attidentity <> '' THEN 'DEFAULT' END)
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
        AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped
"""
# Their words are one, whichever name PostgreSQL gives a constraint. NOT NULL is the column's.
CONSTRAINTS = """
    SELECT t.relname, 'check', pg_get_constraintdef(c.oid)
    FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid
    WHERE t.relnamespace = 'public'::regnamespace AND NOT t.relispartition AND c.contype <> 'n'
    UNION ALL
    SELECT t.relname, 'check',
        regexp_replace(pg_get_indexdef(i.indexrelid), 'INDEX \\S+ ', 'INDEX ')
    FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid
    WHERE t.relnamespace = 'public'::regnamespace AND NOT t.relispartition AND i.indisunique
        AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = i.indexrelid)
    UNION ALL
    SELECT t.relname, 'check', pg_get_triggerdef(g.oid)
    FROM pg_trigger g JOIN pg_class t ON t.oid = g.tgrelid
    WHERE t.relnamespace = 'public'::regnamespace AND NOT g.tgisinternal AND g.tgparentid = 0
    UNION ALL
    SELECT tablename, 'check',
        concat_ws(' ', 'POLICY', policyname, cmd, roles::text, qual, with_check)
    FROM pg_policies WHERE schemaname = 'public'
    UNION ALL
    SELECT relname, 'check', 'ROW LEVEL SECURITY' FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relrowsecurity
"""
GRANTS = """
    SELECT c.relname, format('grant to %s', a.grantee::regrole), a.privilege_type
    FROM pg_class c, aclexplode(c.relacl) a
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
        AND NOT c.relispartition
"""
FUNCTIONS = """
    SELECT p.oid::regprocedure::text, 'function', md5(pg_get_functiondef(p.oid)) FROM pg_proc p
    WHERE p.pronamespace = 'public'::regnamespace AND p.prokind = 'f'
        AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = p.oid AND deptype = 'e')
"""
NOT_NULL, DEFAULT = " NOT NULL", " DEFAULT"


@dataclass(frozen=True)
class Promises:
    columns: Mapping[tuple[str, str], str]
    checks: frozenset[tuple[str, str]]
    grants: frozenset[tuple[str, str, str]]
    functions: Mapping[str, str]

    @property
    def tables(self) -> frozenset[str]:
        return frozenset(table for table, _ in self.columns)


async def promises(connection: asyncpg.Connection) -> Promises:
    return Promises(
        columns={(row[0], row[1]): row[2] for row in await connection.fetch(COLUMNS)},
        checks=frozenset((row[0], row[2]) for row in await connection.fetch(CONSTRAINTS)),
        grants=frozenset(tuple(row) for row in await connection.fetch(GRANTS)),
        functions={row[0]: row[2] for row in await connection.fetch(FUNCTIONS)},
    )


def broken(before: Promises, after: Promises) -> Iterator[str]:
    for (table, column), was in sorted(before.columns.items()):
        if (now := after.columns.get((table, column))) is None:
            yield f"{table}: {column} is gone"
        elif _type_of(now) != _type_of(was):
            yield f"{table}: {column} was {_type_of(was)} and is {_type_of(now)}"
        elif NOT_NULL in now and NOT_NULL not in was:
            yield f"{table}: {column} became NOT NULL"
        elif DEFAULT in was and DEFAULT not in now:
            yield f"{table}: {column} lost its default"
    for (table, column), now in sorted(after.columns.items()):
        new = table in before.tables and (table, column) not in before.columns
        if new and NOT_NULL in now and DEFAULT not in now:
            yield f"{table}: the new {column} is NOT NULL without a default"
    for table, check in sorted(after.checks - before.checks):
        if table in before.tables:
            yield f"{table}: new {check}"
    for table, grantee, privilege in sorted(before.grants - after.grants):
        if table in after.tables:
            yield f"{table}: {grantee} lost {privilege}"
    for function, body in sorted(before.functions.items()):
        if after.functions.get(function) != body:
            yield f"{function} is another, or gone"


def _type_of(column: str) -> str:
    return column.replace(NOT_NULL, "").replace(DEFAULT, "")
