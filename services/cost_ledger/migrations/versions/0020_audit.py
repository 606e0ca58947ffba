"""Costs as one view, rollups with their watermark, signed roots, invoices and their matches."""

from alembic import op

revision = "0020"
down_revision = "0012"

STATEMENTS = (
    # What reports, rollups, exports and invoices mean by a cost. A correction takes its call
    # and its quantities away; an adjustment changes the amount alone. XXX is ISO 4217's "no
    # currency": a call whose price is unknown.
    """
    CREATE VIEW charge WITH (security_invoker = true) AS
    SELECT tenant, sequence, occur_time, create_time, episode_id, tool, model, team, user_id, sku,
           price_version_id, coalesce(quantities, '{}') AS quantities,
           CASE unit WHEN 'XXX' THEN '' ELSE unit END AS currency,
           spend + provisional AS amount,
           CASE WHEN kind IN ('capture', 'record') THEN 1 WHEN kind = 'adjust' THEN 0 ELSE -1 END
               AS calls,
           suspense AS unpriced_calls
    FROM entry WHERE unit <> '' AND kind IN ('capture', 'record', 'reverse', 'settle', 'adjust')
    """,
    # Rollups hold every entry up to the watermark, and none after it.
    "CREATE TABLE rollup_watermark (tenant text PRIMARY KEY, sequence bigint NOT NULL)",
    """
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
        PRIMARY KEY (tenant, day, model, tool, price_version_id, currency)
    ) WITH (fillfactor = 80)
    """,
    "CREATE INDEX rollup_day_by_day ON rollup_day (day)",
    """
    CREATE TABLE rollup_day_usage (
        tenant text NOT NULL,
        day date NOT NULL,
        model text NOT NULL,
        tool text NOT NULL,
        price_version_id text NOT NULL,
        dimension text NOT NULL,
        amount numeric NOT NULL,
        PRIMARY KEY (tenant, day, model, tool, price_version_id, dimension)
    ) WITH (fillfactor = 80)
    """,
    """
    CREATE FUNCTION tenants_behind() RETURNS SETOF text
    STABLE SECURITY DEFINER SET search_path = public, pg_temp LANGUAGE sql AS $$
        SELECT h.tenant FROM ledger_head h LEFT JOIN rollup_watermark w USING (tenant)
        WHERE h.sequence > coalesce(w.sequence, 0) ORDER BY h.tenant
    $$
    """,
    # Sums over every tenant, for the platform's admin; reads nothing but sums.
    """
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
    $$
    """,
    """
    CREATE TABLE anchor (
        day date PRIMARY KEY,
        root bytea NOT NULL,
        tenant_count bigint NOT NULL,
        previous_root bytea NOT NULL,
        signature bytea NOT NULL,
        public_key text NOT NULL,
        create_time timestamptz NOT NULL
    )
    """,
    """
    CREATE TABLE anchor_head (
        day date NOT NULL REFERENCES anchor,
        tenant text NOT NULL,
        tenant_index bigint NOT NULL,
        first_sequence bigint NOT NULL,
        last_sequence bigint NOT NULL,
        head_hash bytea NOT NULL,
        entries_root bytea NOT NULL,
        tenant_path bytea[] NOT NULL,
        PRIMARY KEY (tenant, day)
    )
    """,
    # The end of every tenant's journal and how far the last root reached.
    """
    CREATE FUNCTION heads_to_anchor() RETURNS TABLE (
        tenant text, anchored bigint, sequence bigint, hash bytea
    )
    STABLE SECURITY DEFINER SET search_path = public, pg_temp LANGUAGE sql AS $$
        SELECT h.tenant,
               coalesce((SELECT max(a.last_sequence) FROM anchor_head a
                         WHERE a.tenant = h.tenant), 0),
               h.sequence, h.hash
        FROM ledger_head h WHERE h.sequence > 0 ORDER BY h.tenant COLLATE "C"
    $$
    """,
    """
    CREATE TABLE invoice (
        tenant text NOT NULL,
        id text NOT NULL,
        provider text NOT NULL,
        month text NOT NULL,
        create_time timestamptz NOT NULL,
        reconcile_time timestamptz,
        PRIMARY KEY (tenant, id)
    )
    """,
    # The amount keeps the decimals it was written with: they say how the provider rounds.
    """
    CREATE TABLE invoice_line (
        tenant text NOT NULL,
        invoice_id text NOT NULL,
        position bigint NOT NULL CHECK (position > 0),
        provider_request_id text NOT NULL,
        sku text NOT NULL,
        occur_time timestamptz NOT NULL,
        amount numeric NOT NULL,
        currency text NOT NULL,
        PRIMARY KEY (tenant, invoice_id, position),
        FOREIGN KEY (tenant, invoice_id) REFERENCES invoice
    )
    """,
    """
    CREATE TABLE invoice_match (
        tenant text NOT NULL,
        invoice_id text NOT NULL,
        ordinal bigint NOT NULL,
        state text NOT NULL,
        position bigint,
        sequence bigint,
        PRIMARY KEY (tenant, invoice_id, ordinal),
        FOREIGN KEY (tenant, invoice_id) REFERENCES invoice,
        CHECK (position IS NOT NULL OR sequence IS NOT NULL)
    )
    """,
    *(
        f"SELECT protect('{table}')"
        for table in (
            "rollup_watermark",
            "rollup_day",
            "rollup_day_usage",
            "anchor_head",
            "invoice",
            "invoice_line",
            "invoice_match",
        )
    ),
    *(f"SELECT make_immutable('{table}')" for table in ("anchor", "anchor_head", "invoice_line")),
    "GRANT SELECT ON charge TO cost_ledger_service",
    "GRANT SELECT, INSERT ON anchor, anchor_head, invoice_line TO cost_ledger_service",
    """
    GRANT SELECT, INSERT, UPDATE ON rollup_watermark, rollup_day, rollup_day_usage, invoice
    TO cost_ledger_service
    """,
    "GRANT SELECT, INSERT, DELETE ON invoice_match TO cost_ledger_service",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
