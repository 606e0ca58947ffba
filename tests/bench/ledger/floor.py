"""The floor: the least SQL that keeps charges and balances exact, driven by pgbench.

One table of charges with a unique key, one balance row per tenant; no journal, no second
leg, no budgets, no chain, no row-level security.
"""

from dataclasses import dataclass

import asyncpg
from sqlalchemy import make_url

from bench.ledger.pgbench import rate

TENANTS = 100
BATCH = 100

SCHEMA = """
    CREATE TABLE charge (
        id bigint GENERATED ALWAYS AS IDENTITY, tenant int NOT NULL, key uuid NOT NULL,
        task text NOT NULL, step int NOT NULL, tool text NOT NULL, model text NOT NULL,
        provider_id text NOT NULL, input int NOT NULL, cached int NOT NULL,
        output int NOT NULL, reasoning int NOT NULL, amount numeric(24, 10) NOT NULL,
        UNIQUE (tenant, key)
    );
    CREATE TABLE floor_balance (tenant int PRIMARY KEY, posted numeric(24, 10) NOT NULL,
        held numeric(24, 10) NOT NULL, cap numeric(24, 10) NOT NULL) WITH (fillfactor = 50);
    CREATE TABLE floor_hold (tenant int NOT NULL, key uuid NOT NULL, amount numeric(24, 10)
        NOT NULL, captured boolean NOT NULL DEFAULT false, PRIMARY KEY (tenant, key))
        WITH (fillfactor = 80);
    INSERT INTO floor_balance SELECT t, 0, 0, 1e9 FROM generate_series(1, 100) t;
    CREATE FUNCTION floor_reserve(t int, k uuid, a numeric) RETURNS void LANGUAGE sql AS $$
        WITH fits AS (
            UPDATE floor_balance SET held = held + a
            WHERE tenant = t AND posted + held + a <= cap RETURNING tenant
        )
        INSERT INTO floor_hold (tenant, key, amount) SELECT tenant, k, a FROM fits
        ON CONFLICT DO NOTHING
    $$;
    CREATE FUNCTION floor_capture(t int, k uuid, a numeric) RETURNS void LANGUAGE sql AS $$
        WITH ended AS (
            UPDATE floor_hold SET captured = true WHERE tenant = t AND key = k AND NOT captured
            RETURNING amount
        ), posted AS (
            INSERT INTO charge (tenant, key, task, step, tool, model, provider_id, input, cached,
                                output, reasoning, amount)
            SELECT t, k, 'task-1', 1, 'answer', 'gpt-5', 'chatcmpl-1', 1000, 0, 100, 0, a
            FROM ended
        )
        UPDATE floor_balance SET held = held - ended.amount, posted = posted + a
        FROM ended WHERE tenant = t
    $$;
"""

_CHARGES = """
    WITH posted AS (
        INSERT INTO charge (tenant, key, task, step, tool, model, provider_id, input, cached,
                            output, reasoning, amount)
        SELECT :tenant, gen_random_uuid(), 'task-1', 1, 'answer', 'gpt-5', 'chatcmpl-1', 1000, 0,
               100, 0, 0.00225 FROM generate_series(1, {rows})
        ON CONFLICT DO NOTHING RETURNING amount
    )
    UPDATE floor_balance SET posted = posted + (SELECT sum(amount) FROM posted)
    WHERE tenant = :tenant;
"""
SINGLE = "\\set tenant random(1, 100)\n" + _CHARGES.format(rows=1).replace("\n", " ") + "\n"
BATCHED = "\\set tenant random(1, 100)\n" + _CHARGES.format(rows=BATCH).replace("\n", " ") + "\n"
PAIR = """
\\set tenant random(1, 100)
SELECT gen_random_uuid() AS key \\gset
SELECT floor_reserve(:tenant, :key, 0.01125);
SELECT floor_capture(:tenant, :key, 0.00225);
"""


@dataclass(frozen=True)
class Floor:
    single: float
    batched_rows: float
    pairs: float


async def measure_floor(database_url: str) -> Floor:
    url = make_url(database_url).set(drivername="postgresql")
    connection = await asyncpg.connect(url.render_as_string(hide_password=False))
    await connection.execute(SCHEMA)
    await connection.close()
    return Floor(
        single=await rate(database_url, SINGLE),
        batched_rows=BATCH * await rate(database_url, BATCHED),
        pairs=await rate(database_url, PAIR),
    )
