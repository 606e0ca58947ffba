"""A journal of millions of entries, written straight into the real tables.

Every entry is a record of one call: tenants, days and models are spread evenly, amounts are
exactly quantities times a price. Only the hashes are not linked: reports do not read them,
and a chain has to be computed entry by entry.
"""

import asyncio
from collections.abc import Iterator

import asyncpg
from sqlalchemy import make_url

TENANTS = 200
MODELS = 20
DAYS = 90
WRITERS = 2

# Partitions are made from the month of the ledger's clock on, so it is put back for that.
PARTITIONS = f"""
    CREATE OR REPLACE FUNCTION ledger_clock() RETURNS timestamptz VOLATILE LANGUAGE sql
    RETURN clock_timestamp() - interval '{DAYS} days';
    SELECT make_entry_partitions(3);
    CREATE OR REPLACE FUNCTION ledger_clock() RETURNS timestamptz VOLATILE LANGUAGE sql
    RETURN clock_timestamp();
"""
ENTRIES = f"""
    INSERT INTO entry (
        tenant, key, episode_id, turn, tool, model, team, user_id, agent, sku, windows, sequence,
        kind, quantities, usage_source, provider_request_id, dispatched, hold_unit, held, available,
        unit, spend, provisional, suspense, payable, price_version_id, occur_time, create_time,
        corrects_sequence, reason, hash
    )
    SELECT $1, 'episode-' || s / 20 || '/' || s, 'episode-' || s / 20, s % 20, 'answer', model,
           '', 'ada', 'bench', 'bench/' || model, '[]', s, 'record',
           jsonb_build_object('input_fresh', input::text, 'output_text', output::text), 'provider',
           'call-' || s, false, '', 0, 0, 'USD', cost, 0, 0, -cost, 'price-' || model, at, at,
           0, '', sha256(convert_to($1 || s, 'UTF8'))
    FROM generate_series(1, $2::bigint) s,
         LATERAL (
             SELECT 'model-' || s * 7919 % {MODELS} AS model, 500 + s % 1000 AS input,
                    50 + s % 100 AS output,
                    date_trunc('day', now(), 'UTC') - interval '{DAYS} days'
                        + interval '{DAYS} days' * ((s - 0.5) / $2::bigint) AS at
         ) call,
         LATERAL (SELECT (input * 1.25 + output * 10) / 1000000 AS cost) price
"""
HEAD = """
    INSERT INTO ledger_head (tenant, sequence, hash)
    SELECT tenant, sequence, hash FROM entry WHERE tenant = $1 ORDER BY sequence DESC LIMIT 1
"""


def tenant_name(number: int) -> str:
    return f"reader-{number}"


async def fill(owner_url: str, entries: int) -> None:
    """Writes so many entries over the last ninety whole days."""
    connection = await _connect(owner_url)
    await connection.execute(PARTITIONS)
    waiting = iter(range(TENANTS))
    await asyncio.gather(*(_write(owner_url, waiting, entries) for _ in range(WRITERS)))
    await connection.execute("VACUUM (ANALYZE) entry")
    await connection.close()


async def _write(owner_url: str, waiting: Iterator[int], entries: int) -> None:
    connection = await _connect(owner_url)
    for number in waiting:
        tenant = tenant_name(number)
        async with connection.transaction():
            await connection.execute(ENTRIES, tenant, entries // TENANTS)
            await connection.execute(HEAD, tenant)
    await connection.close()


async def _connect(database_url: str) -> asyncpg.Connection:
    url = make_url(database_url).set(drivername="postgresql")
    return await asyncpg.connect(url.render_as_string(hide_password=False))
