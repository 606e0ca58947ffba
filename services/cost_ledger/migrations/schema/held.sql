-- Of what is used of a budget, what calls in progress hold and may give back.

CREATE OR REPLACE FUNCTION read_statuses(scopes json, now timestamptz) RETURNS json
STABLE LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT json_agg(status) FROM (
            SELECT asked.tenant, asked.scope, asked.scope_id, asked.at, b.id,
                   b.hard_limit, b.currency, b.first, b.start, used.used, used.held, used.row_exists
            FROM json_to_recordset(scopes)
                AS asked(tenant text, scope text, scope_id text, at timestamptz)
            CROSS JOIN LATERAL (
                SELECT b.*, window_first(b, coalesce(asked.at, now)) AS first,
                       window_start(b, coalesce(asked.at, now)) AS start
                FROM budget b
                WHERE b.tenant = asked.tenant AND b.scope = asked.scope
                  AND b.scope_id = asked.scope_id
                  AND budget_holds(b, coalesce(asked.at, now))
                OFFSET 0
            ) b
            CROSS JOIN LATERAL (
                SELECT coalesce(sum(w.posted + w.held), 0) AS used,
                       coalesce(sum(w.held), 0) AS held,
                       coalesce(bool_or(w.start = b.start), false) AS row_exists
                FROM budget_window w
                WHERE w.tenant = b.tenant AND w.budget_id = b.id
                  AND w.start BETWEEN b.first AND b.start
            ) used
        ) status
    );
END
$$;
