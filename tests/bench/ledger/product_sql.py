"""The product's own statements as pgbench scripts: what the database does for a call.

A batch is decided in memory by the product's code, the statements and values it would
send are taken, and keys, tenants and sequences in them become pgbench's variables.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import asyncpg
from sqlalchemy import make_url

from bench.ledger.pgbench import rate
from cost_ledger.budgets.models import BudgetScope, ScopeQuery, WindowStatus
from cost_ledger.journal.store_statements import COLUMNS, READ_BOOKS, write_statement
from cost_ledger.journal.store_writes import parts_of, shape_of
from cost_ledger.models import Subject, UnknownPricePolicy
from cost_ledger.posting.admission import scope_queries
from cost_ledger.posting.batches import Operation, decide
from cost_ledger.posting.books import Books, Head, Rows
from cost_ledger.posting.operations import Capture, Reserve
from cost_ledger.prices.components import PriceComponent
from cost_ledger.prices.models import PriceHistory, PriceVersion
from cost_ledger.store_engine import KEYED_LOOKUPS, to_json
from podium_kit.metering import Dimension, Quantity, Usage, UsageSource
from podium_kit.money import Money

TENANT, KEY, SEQUENCE = "the-tenant", "the-key", 1_000_000
NOW = datetime.now(UTC)
CREATED = NOW - timedelta(hours=1)
BUDGETS = {BudgetScope.TENANT: "", BudgetScope.USER: "ada", BudgetScope.AGENT: "bench"}
SUBJECT = Subject(
    episode_id="0199a000-0000-7000-8000-000000000000",
    turn=1,
    tool="answer",
    model="gpt-5",
    user="ada",
    agent="bench",
)
QUANTITIES = (
    Quantity(Dimension.INPUT_FRESH, Decimal(1000)),
    Quantity(Dimension.OUTPUT_TEXT, Decimal(1000)),
)
PRICE = PriceVersion(
    id="0199a000-0000-7000-8000-000000000001",
    tenant="",
    sku="openai/gpt-5",
    currency_code="USD",
    components=(
        PriceComponent(Dimension.INPUT_FRESH, Decimal("1.25"), Decimal(1_000_000)),
        PriceComponent(Dimension.OUTPUT_TEXT, Decimal(10), Decimal(1_000_000)),
    ),
    start_time=None,
    end_time=None,
    source="bench",
    create_time=CREATED,
)
# Batches per client; their keys repeat from one script to the next.
BATCHES = 100
# The service commits one group at a time, so no two clients write for one tenant here.
HEAD = """
\\set n :n + 1
\\set tenant :client_id * 12 + :n % 12 + 1
"""
SETUP = """
    INSERT INTO ledger_head (tenant, sequence)
    SELECT 'bench-' || t, 1 FROM generate_series(1, 100) t;
    INSERT INTO budget (tenant, id, scope, scope_id, budget_window, rolling_length_s, time_zone,
                        currency, hard_limit, soft_limits, create_time)
    SELECT 'bench-' || t, 'cap-' || scope, scope, scope_id, 'total', 0, 'UTC', 'USD', 1e9,
           '{{}}', '{created}'
    FROM generate_series(1, 100) t,
         (VALUES ('tenant', ''), ('user', 'ada'), ('agent', 'bench')) AS s(scope, scope_id);
    INSERT INTO budget_window SELECT tenant, id, create_time, 0, 0 FROM budget;
"""


async def prepare(owner_url: str) -> None:
    url = make_url(owner_url).set(drivername="postgresql")
    connection = await asyncpg.connect(url.render_as_string(hide_password=False))
    await connection.execute(SETUP.format(created=CREATED.isoformat()))
    await connection.close()


async def pairs_per_s(service_url: str) -> float:
    """Reserve and capture, each a transaction of its own, three budgets, eight clients."""
    script = HEAD + _transaction([_reserve()], 1) + _transaction([_capture()], 1)
    return await _rate(service_url, script)


async def batched_captures_per_s(service_url: str, rows: int) -> float:
    """Captures in batches, of holds that were reserved in batches before."""
    reserves = HEAD + _transaction([_reserve()], rows)
    captures = HEAD + _transaction([_capture()], rows)
    await _rate(service_url, reserves, run=2, transactions=BATCHES)
    return rows * await _rate(service_url, captures, run=2, transactions=BATCHES)


async def _rate(service_url: str, script: str, run: int = 1, transactions: int = 0) -> float:
    return await rate(
        service_url,
        script,
        variables={"n": 0, "run": run},
        transactions=transactions,
        user="cost_ledger_service",
        settings=KEYED_LOOKUPS,
    )


def _transaction(operations: list[Operation], rows: int) -> str:
    """One group as the service sends it: read, then written if no other writer was faster."""
    books = _decided(operations)
    parts = {part: values for part, values in parts_of(books).items() if values}
    shape = shape_of(parts, is_alone=rows == 1)
    arguments = [
        _argument(part, is_single, column, kind, rows)
        for part, is_single in shape
        for column, kind in zip(zip(*parts[part], strict=True), COLUMNS[part].values(), strict=True)
    ]
    return (
        f"{_keys(rows)}{_read(operations[0], rows)}{_sequences(rows)}"
        f"{_filled(write_statement(shape), arguments)};\n"
    )


PER_CALL = {"entries", "new_holds", "changed_holds", "answers"}


def _argument(part: str, is_single: bool, column: tuple[object, ...], kind: str, rows: int) -> str:
    if is_single:
        return _expression(column[0]).replace(" i)", " 1)")
    return _array(column, kind, rows) if part in PER_CALL else _last(column, rows)


def _read(operation: Operation, rows: int) -> str:
    queries = scope_queries(TENANT, SUBJECT, (), None) if isinstance(operation, Reserve) else ()
    text = to_json(
        {"tenant": query.tenant, "scope": query.scope, "scope_id": query.scope_id, "at": query.at}
        for query in queries
    )
    json = f"replace({_literal(text)}, '{TENANT}', {_TENANT})::json" if queries else "NULL::json"
    tenants, keys = _array((TENANT,), "text", rows), _array((KEY,), "text", rows)
    # A capture's answer is its hold's.
    names = _array((operation.name,), "text", rows)
    answers = [tenants, names, keys] if isinstance(operation, Reserve) else ["'{}'::text[]"] * 3
    arguments = [f"ARRAY[{_TENANT}]", *answers, tenants, keys, json]
    # Rows are sent in their binary form, which pgbench does not ask for.
    fields = "(heads->0->>'sequence')::bigint AS sequence, length(array_send(holds)) AS size"
    return _filled(READ_BOOKS.replace("*", fields), arguments) + " \\gset\n"


_TENANT = "('bench-' || :tenant)"
_CALL = "(:client_id || '/' || :run || '/' || :n || '/')"
_KEY = f"({_CALL} || i)"


# A service sends arrays: building one wherever it is used would be measured as the ledger's.
_KEYS, _SEQUENCES = ":keys::text[]", ":sequences::bigint[]"


def _keys(rows: int) -> str:
    return _built(f"(SELECT {_CALL} AS first OFFSET 0) key", "key.first || i", "keys", rows)


def _sequences(rows: int) -> str:
    return _built("(SELECT :sequence::bigint AS last) head", "head.last + i", "sequences", rows)


def _built(row: str, expression: str, name: str, rows: int) -> str:
    if rows == 1:
        return ""
    numbers = f"generate_series(1, {rows}) i"
    return f"SELECT array_agg({expression}) AS {name} FROM {row}, {numbers} \\gset\n"


def _array(column: Iterable[object], kind: str, rows: int) -> str:
    """The values of a column, for `rows` calls instead of the one that was decided."""
    (value,) = column
    if rows == 1:
        return _last((value,), 1)
    built = {KEY: _KEYS, SEQUENCE + 1: _SEQUENCES}.get(value)
    return built or f"array_fill({_expression(value)}::{kind}, ARRAY[{rows}])"


def _last(column: Iterable[object], rows: int) -> str:
    """The values of a column that has one row per tenant or window, after the last call."""
    items = ", ".join(_expression(value) for value in column)
    return f"ARRAY[{items}]".replace(" i)", f" {rows})")


def _expression(value: object) -> str:
    if value == TENANT:
        return _TENANT
    if value == KEY:
        return _KEY
    if value == SEQUENCE:
        return ":sequence"
    if value == SEQUENCE + 1:
        return "(:sequence + i)"
    return _literal(value)


def _literal(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case bytes():
            return f"decode('{value.hex()}', 'hex')"
        case int() | Decimal():
            return str(value)
        case datetime():
            return f"'{value.isoformat()}'"
    return "'" + str(value).replace("'", "''") + "'"


def _filled(statement: str, arguments: list[str]) -> str:
    for number in range(len(arguments), 0, -1):
        statement = statement.replace(f"${number}", f"({arguments[number - 1]})")
    return " ".join(statement.split())


def _decided(operations: list[Operation]) -> Books:
    books = _books()
    if isinstance(operations[0], Capture):
        decide((_reserve(),), books)
        books.loaded.holds |= books.written.holds
        heads = {TENANT: Head(SEQUENCE, bytes(32))}
        books.loaded.heads, books.written = heads, Rows()
    outcome = decide(tuple(operations), books)
    if isinstance(outcome, Exception):
        raise outcome
    return books


def _books() -> Books:
    statuses = {
        ScopeQuery(TENANT, scope, scope_id, None): [
            WindowStatus(
                TENANT,
                f"cap-{scope.value}",
                scope,
                scope_id,
                Money(Decimal(10**9), "USD"),
                CREATED,
                CREATED,
                Decimal(0),
                Decimal(0),
                row_exists=True,
            )
        ]
        for scope, scope_id in BUDGETS.items()
    }
    return Books(
        now=NOW,
        loaded=Rows(heads={TENANT: Head(SEQUENCE, bytes(32))}),
        statuses=statuses,
        prices={(TENANT, PRICE.sku): PriceHistory((PRICE,), ())},
    )


def _reserve() -> Reserve:
    return Reserve(
        tenant=TENANT,
        key=KEY,
        subject=SUBJECT,
        sku=PRICE.sku,
        worst_case=QUANTITIES,
        unknown_price=UnknownPricePolicy.REJECT,
        ceiling=None,
        time_to_live_s=3600.0,
        dispatched=True,
    )


def _capture() -> Capture:
    return Capture(TENANT, KEY, Usage(QUANTITIES, UsageSource.PROVIDER, "chatcmpl-1"))
