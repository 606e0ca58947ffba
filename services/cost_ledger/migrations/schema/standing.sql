-- What operators are alerted by, over every tenant: numbers, and of budgets their names.

-- One statement, so that balances, the entries that they lack and holds are of one moment.
-- Of a journal of millions, those few entries are found by the index.
CREATE FUNCTION ledger_standing(
    OUT overdue_s double precision, OUT untied_tenants bigint, OUT owed_s double precision
) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    SELECT coalesce((
            SELECT greatest(extract(epoch FROM ledger_clock() - min(expire_time)), 0)
            FROM hold WHERE state = 'open'
        ), 0),
        (
            SELECT count(DISTINCT tenant) FROM (
                SELECT tenant FROM balance WHERE spend + provisional + suspense <> -payable
                UNION ALL
                SELECT tenant FROM (
                    SELECT tenant, unit, held FROM balance
                    UNION ALL
                    SELECT e.tenant, e.hold_unit, e.held
                    FROM ledger_head h LEFT JOIN rollup_watermark w USING (tenant)
                    JOIN entry e ON e.tenant = h.tenant AND e.sequence > coalesce(w.sequence, 0)
                    UNION ALL
                    SELECT tenant, coalesce(currency, 'XXX'), -coalesce(amount, 1)
                    FROM hold WHERE state = 'open'
                ) held GROUP BY tenant, unit HAVING sum(held) <> 0
            ) untied
        ),
        coalesce((
            SELECT extract(epoch FROM ledger_clock() - min(create_time))
            FROM budget_alert WHERE publish_time IS NULL
        ), 0)
$$;
REVOKE EXECUTE ON FUNCTION ledger_standing() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger_standing() TO cost_ledger_service;

CREATE FUNCTION nearly_spent_budgets(at_least numeric, count_max integer)
RETURNS TABLE (tenant text, budget_id text, share numeric)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT b.tenant, b.id, used.used / now.hard_limit AS share
    FROM budget b
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(w.posted + w.held), 0) AS used FROM budget_window w
        WHERE w.tenant = b.tenant AND w.budget_id = b.id
          AND w.start BETWEEN window_first(b, ledger_clock()) AND window_start(b, ledger_clock())
    ) used
    CROSS JOIN LATERAL (SELECT limit_at(b, ledger_clock()) AS hard_limit) now
    WHERE now.hard_limit > 0 AND b.scope <> 'episode' AND budget_holds(b, ledger_clock())
      AND used.used >= at_least * now.hard_limit
    ORDER BY share DESC, b.tenant, b.id LIMIT count_max
$$;
REVOKE EXECUTE ON FUNCTION nearly_spent_budgets(numeric, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION nearly_spent_budgets(numeric, integer) TO cost_ledger_service;
