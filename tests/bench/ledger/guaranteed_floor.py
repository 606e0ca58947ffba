"""A second floor: what the ledger guarantees, in the least plain SQL that guarantees it.

A key has one effect and one answer, for ever; a hold fits all three budgets of its tenant or is
rejected; every entry balances and is chained to the entry before it; balances, windows and holds
are written with it. One call of a function is one transaction. There is no row-level security, no
price, no attribute that reports group by beyond tool and model, no kind of operation but three.
"""

from dataclasses import dataclass

import asyncpg
from sqlalchemy import make_url

from bench.ledger.pgbench import rate

SCHEMA = """
    CREATE TABLE sure_head (tenant int PRIMARY KEY, sequence bigint NOT NULL, hash bytea NOT NULL)
        WITH (fillfactor = 50);
    CREATE TABLE sure_entry (
        tenant int NOT NULL, sequence bigint NOT NULL, kind text NOT NULL, key uuid NOT NULL,
        task text NOT NULL, step int NOT NULL, tool text NOT NULL, model text NOT NULL,
        input int NOT NULL, output int NOT NULL, held numeric(28, 12) NOT NULL,
        available numeric(28, 12) NOT NULL, spend numeric(28, 12) NOT NULL,
        payable numeric(28, 12) NOT NULL, create_time timestamptz NOT NULL, hash bytea NOT NULL,
        PRIMARY KEY (tenant, sequence), CHECK (held + available = 0), CHECK (spend + payable = 0)
    );
    CREATE TABLE sure_answer (tenant int NOT NULL, operation text NOT NULL, key uuid NOT NULL,
        sequence bigint NOT NULL, PRIMARY KEY (tenant, operation, key));
    CREATE TABLE sure_hold (tenant int NOT NULL, key uuid NOT NULL, amount numeric(28, 12) NOT NULL,
        PRIMARY KEY (tenant, key));
    CREATE TABLE sure_window (tenant int NOT NULL, budget int NOT NULL,
        posted numeric(28, 12) NOT NULL, held numeric(28, 12) NOT NULL,
        hard numeric(28, 12) NOT NULL, PRIMARY KEY (tenant, budget)) WITH (fillfactor = 50);
    CREATE TABLE sure_balance (tenant int PRIMARY KEY, held numeric(28, 12) NOT NULL,
        available numeric(28, 12) NOT NULL, spend numeric(28, 12) NOT NULL,
        payable numeric(28, 12) NOT NULL) WITH (fillfactor = 50);
    INSERT INTO sure_head SELECT t, 0, '' FROM generate_series(1, 100) t;
    INSERT INTO sure_balance SELECT t, 0, 0, 0, 0 FROM generate_series(1, 100) t;
    INSERT INTO sure_window SELECT t, b, 0, 0, 1e9
        FROM generate_series(1, 100) t, generate_series(1, 3) b;

    CREATE FUNCTION sure_link(
        previous bytea, tenant int, sequence bigint, kind text, key uuid, task text, step int,
        tool text, model text, input int, output int, held numeric, spend numeric, at timestamptz
    ) RETURNS bytea STABLE LANGUAGE sql RETURN sha256(previous || convert_to(concat_ws('|', tenant,
        sequence, kind, key, task, step, tool, model, input, output, held::numeric(28, 12),
        spend::numeric(28, 12), extract(epoch FROM at)), 'UTF8'));

    -- Moves a tenant's books by one entry; whoever calls it has the lock on the head.
    CREATE FUNCTION sure_post(h sure_head, kind text, k uuid, held numeric, spend numeric)
    RETURNS bigint LANGUAGE plpgsql AS $$
    DECLARE
        number bigint := h.sequence + 1;
        now timestamptz := clock_timestamp();
        link bytea := sure_link(h.hash, h.tenant, number, kind, k, 'task-1', 1, 'answer', 'gpt-5',
                                1000, 100, held, spend, now);
    BEGIN
        INSERT INTO sure_entry VALUES (h.tenant, number, kind, k, 'task-1', 1, 'answer', 'gpt-5',
            1000, 100, held, -held, spend, -spend, now, link);
        INSERT INTO sure_answer VALUES (h.tenant, kind, k, number);
        UPDATE sure_window w SET posted = w.posted + sure_post.spend, held = w.held + sure_post.held
        WHERE w.tenant = h.tenant;
        UPDATE sure_balance b SET held = b.held + sure_post.held,
            available = b.available - sure_post.held, spend = b.spend + sure_post.spend,
            payable = b.payable - sure_post.spend
        WHERE b.tenant = h.tenant;
        UPDATE sure_head s SET sequence = number, hash = link WHERE s.tenant = h.tenant;
        RETURN number;
    END
    $$;

    -- The entry's sequence; 0: rejected.
    CREATE FUNCTION sure_reserve(t int, k uuid, a numeric) RETURNS bigint LANGUAGE plpgsql AS $$
    DECLARE
        h sure_head;
        answered bigint;
    BEGIN
        SELECT * INTO h FROM sure_head WHERE tenant = t FOR UPDATE;
        SELECT sequence INTO answered FROM sure_answer
        WHERE tenant = t AND operation = 'reserve' AND key = k;
        IF FOUND THEN
            RETURN answered;
        END IF;
        PERFORM FROM sure_window WHERE tenant = t AND posted + held + a > hard;
        IF FOUND THEN
            INSERT INTO sure_answer VALUES (t, 'reserve', k, 0);
            RETURN 0;
        END IF;
        INSERT INTO sure_hold VALUES (t, k, a);
        RETURN sure_post(h, 'reserve', k, a, 0);
    END
    $$;
    CREATE FUNCTION sure_capture(t int, k uuid, a numeric) RETURNS bigint LANGUAGE plpgsql AS $$
    DECLARE
        h sure_head;
        answered bigint;
        ended numeric;
    BEGIN
        SELECT * INTO h FROM sure_head WHERE tenant = t FOR UPDATE;
        SELECT sequence INTO answered FROM sure_answer
        WHERE tenant = t AND operation = 'capture' AND key = k;
        IF FOUND THEN
            RETURN answered;
        END IF;
        DELETE FROM sure_hold WHERE tenant = t AND key = k RETURNING amount INTO STRICT ended;
        RETURN sure_post(h, 'capture', k, -ended, a);
    END
    $$;
    CREATE FUNCTION sure_record(t int, k uuid, a numeric) RETURNS bigint LANGUAGE plpgsql AS $$
    DECLARE
        h sure_head;
        answered bigint;
    BEGIN
        SELECT * INTO h FROM sure_head WHERE tenant = t FOR UPDATE;
        SELECT sequence INTO answered FROM sure_answer
        WHERE tenant = t AND operation = 'record' AND key = k;
        IF FOUND THEN
            RETURN answered;
        END IF;
        RETURN sure_post(h, 'record', k, 0, a);
    END
    $$;
"""
POST = """
\\set tenant random(1, 100)
SELECT sure_record(:tenant, gen_random_uuid(), 0.00225);
"""
PAIR = """
\\set tenant random(1, 100)
SELECT gen_random_uuid() AS key \\gset
SELECT sure_reserve(:tenant, :key, 0.01125);
SELECT sure_capture(:tenant, :key, 0.00225);
"""
# Tenants whose books are wrong: a gap, a broken link, or a sum that is not that of the entries.
WRONG_BOOKS = """
    WITH linked AS (
        SELECT e.*, coalesce(lag(hash) OVER chain, '') AS previous,
               row_number() OVER chain AS place
        FROM sure_entry e WINDOW chain AS (PARTITION BY tenant ORDER BY sequence)
    ), summed AS (
        SELECT tenant, max(sequence) AS sequence, sum(held) AS held, sum(spend) AS spend,
               bool_and(sequence = place AND hash = sure_link(previous, tenant, sequence, kind,
                   key, task, step, tool, model, input, output, held, spend, create_time))
                   AS is_chained
        FROM linked GROUP BY tenant
    )
    SELECT s.tenant FROM summed s JOIN sure_balance b USING (tenant) JOIN sure_head h USING (tenant)
    WHERE NOT s.is_chained OR (s.sequence, s.held, s.spend) <> (h.sequence, b.held, b.spend)
       OR s.held <> (SELECT coalesce(sum(amount), 0) FROM sure_hold o WHERE o.tenant = s.tenant)
       OR EXISTS (SELECT FROM sure_window w WHERE w.tenant = s.tenant
                  AND ((w.held, w.posted) <> (s.held, s.spend) OR w.held + w.posted > w.hard))
"""


@dataclass(frozen=True)
class GuaranteedFloor:
    single: float
    pairs: float


async def measure_guaranteed_floor(database_url: str) -> GuaranteedFloor:
    """Measures posts and pairs with eight clients, and that the books are right afterwards."""
    connection = await connect(database_url)
    try:
        await connection.execute(SCHEMA)
        measured = GuaranteedFloor(
            single=await rate(database_url, POST), pairs=await rate(database_url, PAIR)
        )
        if wrong := await connection.fetch(WRONG_BOOKS):
            raise RuntimeError(f"the floor keeps no books: tenants {[row[0] for row in wrong]}")
    finally:
        await connection.close()
    return measured


async def connect(database_url: str) -> asyncpg.Connection:
    url = make_url(database_url).set(drivername="postgresql")
    return await asyncpg.connect(url.render_as_string(hide_password=False))
