"""Quantities beside the costs they belong to: one row to add to and to read, not one of each.

The sums are made again from the journal, by the next report or by the loop that keeps them.
"""

from alembic import op

revision = "0028"
down_revision = "0027"

# Null: nothing of it was ever used. Nulls take no room, and most rows have few quantities.
DIMENSIONS = (
    *("input_fresh", "cache_read", "cache_write_5m", "cache_write_1h", "output_text", "reasoning"),
    *("call", "second", "gpu_second", "search", "document", "image"),
    *("audio_input", "audio_output"),
)
NEW = ", ".join(f"ADD COLUMN {name} numeric" for name in DIMENSIONS)
NAMES = ", ".join(DIMENSIONS)
# Of an integer, sign() is a float.
SUMS = ", ".join(
    f"sum(sign(c.calls::numeric) * (c.quantities->>'{name}')::numeric)" for name in DIMENSIONS
)
ADDED = ", ".join(
    f"{name} = coalesce(r.{name} + excluded.{name}, r.{name}, excluded.{name})"
    for name in DIMENSIONS
)

STATEMENTS = (
    "TRUNCATE rollup_watermark, rollup_day",
    "DROP TABLE rollup_day_usage",
    f"ALTER TABLE rollup_day {NEW}",
    # Adds what is new for the tenants, at most so many entries; how many they were. A tenant
    # that is not behind is neither locked nor written. The head is read with the lock: entries
    # up to it are committed and never change. Ordered, so that two of these never wait for each
    # other in a circle. Small tables grow: a scan of a journal that was the best plan for a few
    # entries must not be kept for millions.
    f"""
    CREATE OR REPLACE FUNCTION roll_up(tenants text[], count_max bigint) RETURNS bigint
    LANGUAGE plpgsql SET enable_seqscan = off AS $$
    DECLARE
        mark record;
        until bigint;
        total bigint := 0;
    BEGIN
        INSERT INTO rollup_watermark (tenant, sequence)
        SELECT h.tenant, 0 FROM ledger_head h WHERE h.tenant = ANY (tenants)
        ON CONFLICT DO NOTHING;
        FOR mark IN
            SELECT w.tenant, w.sequence AS after, h.sequence AS head
            FROM rollup_watermark w JOIN ledger_head h USING (tenant)
            WHERE w.tenant = ANY (tenants) AND w.sequence < h.sequence
            ORDER BY w.tenant FOR UPDATE OF w
        LOOP
            until := least(mark.head, mark.after + count_max - total);
            CONTINUE WHEN until <= mark.after;

            INSERT INTO rollup_day AS r (
                tenant, day, model, tool, price_version_id, currency, amount, calls,
                unpriced_calls, {NAMES}
            )
            SELECT c.tenant, (c.occur_time AT TIME ZONE 'UTC')::date, c.model, c.tool,
                   c.price_version_id, c.currency, sum(c.amount), sum(c.calls),
                   sum(c.unpriced_calls), {SUMS}
            FROM charge c
            WHERE c.tenant = mark.tenant AND c.sequence > mark.after AND c.sequence <= until
            GROUP BY 1, 2, 3, 4, 5, 6
            ON CONFLICT (tenant, day, model, tool, price_version_id, currency) DO UPDATE
            SET amount = r.amount + excluded.amount, calls = r.calls + excluded.calls,
                unpriced_calls = r.unpriced_calls + excluded.unpriced_calls, {ADDED};

            UPDATE rollup_watermark w SET sequence = until WHERE w.tenant = mark.tenant;
            total := total + until - mark.after;
        END LOOP;
        RETURN total;
    END
    $$
    """,  # noqa: S608  constants
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
