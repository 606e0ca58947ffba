"""Daily sums of many tenants in one round trip."""

from alembic import op

revision = "0023"
down_revision = "0022"

STATEMENTS = (
    # Adds what is new for the tenants, at most so many entries; how many they were. The head is
    # read with the lock: entries up to it are committed and never change. Ordered, so that two
    # of these never wait for each other in a circle. Small tables grow: a scan of a journal
    # that was the best plan for a few entries must not be kept for millions.
    """
    CREATE FUNCTION roll_up(tenants text[], count_max bigint) RETURNS bigint
    LANGUAGE plpgsql SET enable_seqscan = off AS $$
    DECLARE
        mark record;
        until bigint;
        total bigint := 0;
    BEGIN
        INSERT INTO rollup_watermark (tenant, sequence)
        SELECT unnest(tenants), 0 ON CONFLICT DO NOTHING;
        FOR mark IN
            SELECT w.tenant, w.sequence AS after, h.sequence AS head
            FROM rollup_watermark w JOIN ledger_head h USING (tenant)
            WHERE w.tenant = ANY (tenants) ORDER BY w.tenant FOR UPDATE OF w
        LOOP
            until := least(mark.head, mark.after + count_max - total);
            CONTINUE WHEN until <= mark.after;

            INSERT INTO rollup_day AS r
            SELECT c.tenant, (c.occur_time AT TIME ZONE 'UTC')::date, c.model, c.tool,
                   c.price_version_id, c.currency, sum(c.amount), sum(c.calls),
                   sum(c.unpriced_calls)
            FROM charge c
            WHERE c.tenant = mark.tenant AND c.sequence > mark.after AND c.sequence <= until
            GROUP BY 1, 2, 3, 4, 5, 6
            ON CONFLICT (tenant, day, model, tool, price_version_id, currency) DO UPDATE
            SET amount = r.amount + excluded.amount, calls = r.calls + excluded.calls,
                unpriced_calls = r.unpriced_calls + excluded.unpriced_calls;

            INSERT INTO rollup_day_usage AS r
            SELECT c.tenant, (c.occur_time AT TIME ZONE 'UTC')::date, c.model, c.tool,
                   c.price_version_id, used.key, sum(sign(c.calls) * used.value::numeric)
            FROM charge c CROSS JOIN LATERAL jsonb_each_text(c.quantities) used
            WHERE c.tenant = mark.tenant AND c.sequence > mark.after AND c.sequence <= until
            GROUP BY 1, 2, 3, 4, 5, 6
            ON CONFLICT (tenant, day, model, tool, price_version_id, dimension) DO UPDATE
            SET amount = r.amount + excluded.amount;

            UPDATE rollup_watermark w SET sequence = until WHERE w.tenant = mark.tenant;
            total := total + until - mark.after;
        END LOOP;
        RETURN total;
    END
    $$
    """,
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
