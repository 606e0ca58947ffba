-- What reports, daily sums, exports and invoices mean by a cost. A correction takes its call and
-- its quantities away; an adjustment changes the amount alone. XXX is ISO 4217's "no currency": a
-- call whose price is unknown.
CREATE VIEW charge WITH (security_invoker = true) AS
SELECT tenant, sequence, occur_time, create_time, episode_id, tool, model, team, user_id, sku,
       price_version_id, coalesce(quantities, '{}') AS quantities,
       CASE unit WHEN 'XXX' THEN '' ELSE unit END AS currency,
       spend + provisional AS amount,
       CASE WHEN kind IN ('capture', 'record') THEN 1 WHEN kind = 'adjust' THEN 0 ELSE -1 END
           AS calls,
       suspense AS unpriced_calls
FROM entry WHERE unit <> '' AND kind IN ('capture', 'record', 'settle', 'adjust');

-- Daily sums hold every entry up to the watermark, and none after it.
CREATE TABLE rollup_watermark (tenant text PRIMARY KEY, sequence bigint NOT NULL);

CREATE TABLE rollup_day (
    tenant text NOT NULL,
    day date NOT NULL,
    model text NOT NULL,
    tool text NOT NULL,
    price_version_id text NOT NULL,
    currency text NOT NULL,
    amount numeric(28, 12) NOT NULL,
    calls bigint NOT NULL,
    unpriced_calls bigint NOT NULL,
    -- Quantities; null: nothing of it was ever used. Nulls take no room.
    input_fresh numeric,
    cache_read numeric,
    cache_write_short numeric,
    cache_write_long numeric,
    output_text numeric,
    reasoning numeric,
    call numeric,
    second numeric,
    gpu_second numeric,
    search numeric,
    document numeric,
    image numeric,
    audio_input numeric,
    audio_output numeric,
    provider_cost numeric,
    PRIMARY KEY (tenant, day, model, tool, price_version_id, currency)
) WITH (fillfactor = 80);
CREATE INDEX rollup_day_by_day ON rollup_day (day);

-- The accounts of every tenant up to the same watermark, by unit.
CREATE TABLE balance (
    tenant text NOT NULL,
    unit text NOT NULL,
    held numeric(28, 12) NOT NULL,
    available numeric(28, 12) NOT NULL,
    spend numeric(28, 12) NOT NULL,
    provisional numeric(28, 12) NOT NULL,
    suspense numeric(28, 12) NOT NULL,
    payable numeric(28, 12) NOT NULL,
    PRIMARY KEY (tenant, unit)
) WITH (fillfactor = 50);

-- Adds what is new for the tenants, at most so many entries; returns how many they were. A tenant
-- that is not behind is neither locked nor written. The head is read with the lock: entries up to
-- it are committed and never change. Ordered, so that two of these never wait for each other in a
-- circle. Small tables grow: a scan of a journal that was the best plan for a few entries must not
-- be kept for millions. Of an integer, sign() is a float.
CREATE FUNCTION roll_up(tenants text[], count_max bigint) RETURNS bigint
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
            unpriced_calls, input_fresh, cache_read, cache_write_short, cache_write_long, output_text, reasoning,
            call, second, gpu_second, search, document, image, audio_input, audio_output, provider_cost
        )
        SELECT c.tenant, (c.occur_time AT TIME ZONE 'UTC')::date, c.model, c.tool,
               c.price_version_id, c.currency, sum(c.amount), sum(c.calls),
               sum(c.unpriced_calls),
               sum(sign(c.calls::numeric) * (c.quantities->>'input_fresh')::numeric),
               sum(sign(c.calls::numeric) * (c.quantities->>'cache_read')::numeric),
               sum(sign(c.calls::numeric) * (c.quantities->>'cache_write_short')::numeric),
               sum(sign(c.calls::numeric) * (c.quantities->>'cache_write_long')::numeric),
               sum(sign(c.calls::numeric) * (c.quantities->>'output_text')::numeric),
               sum(sign(c.calls::numeric) * (c.quantities->>'reasoning')::numeric),
               sum(sign(c.calls::numeric) * (c.quantities->>'call')::numeric),
               sum(sign(c.calls::numeric) * (c.quantities->>'second')::numeric),
               sum(sign(c.calls::numeric) * (c.quantities->>'gpu_second')::numeric),
               sum(sign(c.calls::numeric) * (c.quantities->>'search')::numeric),
               sum(sign(c.calls::numeric) * (c.quantities->>'document')::numeric),
               sum(sign(c.calls::numeric) * (c.quantities->>'image')::numeric),
               sum(sign(c.calls::numeric) * (c.quantities->>'audio_input')::numeric),
               sum(sign(c.calls::numeric) * (c.quantities->>'audio_output')::numeric),
               sum(sign(c.calls::numeric) * (c.quantities->>'provider_cost')::numeric)
        FROM charge c
        WHERE c.tenant = mark.tenant AND c.sequence > mark.after AND c.sequence <= until
        GROUP BY 1, 2, 3, 4, 5, 6
        ON CONFLICT (tenant, day, model, tool, price_version_id, currency) DO UPDATE
        SET amount = r.amount + excluded.amount, calls = r.calls + excluded.calls,
            unpriced_calls = r.unpriced_calls + excluded.unpriced_calls,
            input_fresh = coalesce(r.input_fresh + excluded.input_fresh, r.input_fresh, excluded.input_fresh),
            cache_read = coalesce(r.cache_read + excluded.cache_read, r.cache_read, excluded.cache_read),
            cache_write_short = coalesce(r.cache_write_short + excluded.cache_write_short, r.cache_write_short, excluded.cache_write_short),
            cache_write_long = coalesce(r.cache_write_long + excluded.cache_write_long, r.cache_write_long, excluded.cache_write_long),
            output_text = coalesce(r.output_text + excluded.output_text, r.output_text, excluded.output_text),
            reasoning = coalesce(r.reasoning + excluded.reasoning, r.reasoning, excluded.reasoning),
            call = coalesce(r.call + excluded.call, r.call, excluded.call),
            second = coalesce(r.second + excluded.second, r.second, excluded.second),
            gpu_second = coalesce(r.gpu_second + excluded.gpu_second, r.gpu_second, excluded.gpu_second),
            search = coalesce(r.search + excluded.search, r.search, excluded.search),
            document = coalesce(r.document + excluded.document, r.document, excluded.document),
            image = coalesce(r.image + excluded.image, r.image, excluded.image),
            audio_input = coalesce(r.audio_input + excluded.audio_input, r.audio_input, excluded.audio_input),
            audio_output = coalesce(r.audio_output + excluded.audio_output, r.audio_output, excluded.audio_output),
            provider_cost = coalesce(r.provider_cost + excluded.provider_cost, r.provider_cost, excluded.provider_cost);

        INSERT INTO balance AS b (
            tenant, unit, held, available, spend, provisional, suspense, payable
        )
        SELECT e.tenant, u.unit, sum(u.held), sum(u.available), sum(u.spend), sum(u.provisional),
               sum(u.suspense), sum(u.payable)
        FROM entry e
        CROSS JOIN LATERAL (VALUES
            (e.hold_unit, e.held, e.available, 0, 0, 0, 0),
            (e.unit, 0, 0, e.spend, e.provisional, e.suspense, e.payable)
        ) AS u(unit, held, available, spend, provisional, suspense, payable)
        WHERE e.tenant = mark.tenant AND e.sequence > mark.after AND e.sequence <= until
          AND u.unit <> ''
        GROUP BY 1, 2
        ON CONFLICT (tenant, unit) DO UPDATE
        SET held = b.held + excluded.held, available = b.available + excluded.available,
            spend = b.spend + excluded.spend, provisional = b.provisional + excluded.provisional,
            suspense = b.suspense + excluded.suspense, payable = b.payable + excluded.payable;

        UPDATE rollup_watermark w SET sequence = until WHERE w.tenant = mark.tenant;
        total := total + until - mark.after;
    END LOOP;
    RETURN total;
END
$$;

CREATE FUNCTION tenants_behind() RETURNS SETOF text
STABLE SECURITY DEFINER SET search_path = public, pg_temp LANGUAGE sql AS $$
    SELECT h.tenant FROM ledger_head h LEFT JOIN rollup_watermark w USING (tenant)
    WHERE h.sequence > coalesce(w.sequence, 0) ORDER BY h.tenant
$$;
REVOKE EXECUTE ON FUNCTION tenants_behind() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tenants_behind() TO cost_ledger_service;

-- Sums over every tenant, for the platform's admin; reads nothing but sums.
CREATE FUNCTION platform_spend(
    first_day date, end_day date,
    by_tenant boolean, by_day boolean, by_model boolean, by_tool boolean, by_price boolean
) RETURNS TABLE (
    tenant text, day text, model text, tool text, price_version text, currency text,
    amount numeric, calls numeric, unpriced_calls numeric
)
STABLE SECURITY DEFINER SET search_path = public, pg_temp LANGUAGE sql AS $$
    SELECT CASE WHEN by_tenant THEN r.tenant ELSE '' END,
           CASE WHEN by_day THEN r.day::text ELSE '' END,
           CASE WHEN by_model THEN r.model ELSE '' END,
           CASE WHEN by_tool THEN r.tool ELSE '' END,
           CASE WHEN by_price THEN r.price_version_id ELSE '' END,
           r.currency, sum(r.amount), sum(r.calls), sum(r.unpriced_calls)
    FROM rollup_day r
    WHERE (first_day IS NULL OR r.day >= first_day) AND (end_day IS NULL OR r.day < end_day)
    GROUP BY 1, 2, 3, 4, 5, 6
$$;
REVOKE EXECUTE ON FUNCTION
    platform_spend(date, date, boolean, boolean, boolean, boolean, boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    platform_spend(date, date, boolean, boolean, boolean, boolean, boolean) TO cost_ledger_service;

SELECT protect('rollup_watermark');
SELECT protect('rollup_day');
SELECT protect('balance');

GRANT SELECT ON charge TO cost_ledger_service;
GRANT SELECT, INSERT, UPDATE ON rollup_watermark, rollup_day, balance TO cost_ledger_service;
