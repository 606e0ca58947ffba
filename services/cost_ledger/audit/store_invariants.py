"""The ledger's invariants, one query each: it answers the first wrong row, or none.

Every query sees one tenant (`:tenant`) and answers `row`, what is wrong, and `problem`,
how. I8 (amounts equal quantities times prices) and the hashes of I9 are recomputed in
`verification.py`; I12, that no tenant sees another, is what row-level security is tested
for.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncEngine

from cost_ledger.store_engine import tenant_transaction


@dataclass(frozen=True, slots=True)
class Invariant:
    rule: str
    text: str
    query: TextClause


@dataclass(frozen=True, slots=True)
class Finding:
    rule: str
    rule_text: str
    row: str
    problem: str


def _invariant(rule: str, words: str, query: str) -> Invariant:
    return Invariant(rule, words, text(query))


# The amounts that each entry adds to each budget window.
WINDOW_MOVES = """
    WITH window_move AS (
        SELECT sequence, kind, create_time, w ->> 0 AS budget_id, (w ->> 1)::timestamptz AS start,
               CASE WHEN hold_unit = w ->> 2 THEN held ELSE 0 END AS held,
               CASE WHEN unit = w ->> 2 AND coalesce(w ->> 3, model) = model
                    THEN spend + provisional ELSE 0 END AS posted
        FROM entry CROSS JOIN LATERAL json_array_elements(windows) w
        WHERE tenant = :tenant
    )
"""

INVARIANTS = (
    _invariant(
        "I1",
        "the postings of every entry sum to zero per unit",
        """
        SELECT format('entry %s', sequence) AS row,
               format('its postings in %s sum to %s', unit, sum(amount)) AS problem
        FROM posting WHERE tenant = :tenant
        GROUP BY sequence, unit HAVING sum(amount) <> 0 ORDER BY sequence LIMIT 1
        """,
    ),
    _invariant(
        "I2",
        "every balance is the sum of its postings up to the watermark",
        """
        WITH posted AS (
            SELECT unit, account, sum(amount) AS amount
            FROM posting
            WHERE tenant = :tenant
              AND sequence <= (SELECT sequence FROM rollup_watermark WHERE tenant = :tenant)
            GROUP BY unit, account
        ), kept AS (
            SELECT b.unit, a.account, a.amount
            FROM balance b CROSS JOIN LATERAL (VALUES
                ('held', b.held), ('available', b.available), ('spend', b.spend),
                ('provisional', b.provisional), ('suspense', b.suspense), ('payable', b.payable)
            ) a(account, amount)
            WHERE b.tenant = :tenant
        )
        SELECT format('balance %s in %s', account, unit) AS row,
               format('it is %s, its postings sum to %s',
                      coalesce(kept.amount, 0), coalesce(posted.amount, 0)) AS problem
        FROM kept FULL JOIN posted USING (unit, account)
        WHERE coalesce(kept.amount, 0) <> coalesce(posted.amount, 0)
        ORDER BY unit, account LIMIT 1
        """,
    ),
    _invariant(
        "I3",
        "what is held is the sum of the open holds",
        """
        WITH open AS (
            SELECT coalesce(currency, 'XXX') AS unit, sum(coalesce(amount, 1)) AS held
            FROM hold WHERE tenant = :tenant AND state = 'open' GROUP BY 1
        ), posted AS (
            SELECT hold_unit AS unit, sum(held) AS held
            FROM entry WHERE tenant = :tenant AND hold_unit <> '' GROUP BY 1
        )
        SELECT format('held in %s', unit) AS row,
               format('the entries sum to %s, the open holds to %s',
                      coalesce(posted.held, 0), coalesce(open.held, 0)) AS problem
        FROM posted FULL JOIN open USING (unit)
        WHERE coalesce(posted.held, 0) <> coalesce(open.held, 0) ORDER BY unit LIMIT 1
        """,
    ),
    _invariant(
        "I3 windows",
        "every budget window holds and posts what the entries that count in it do",
        f"""
        {WINDOW_MOVES}
        , moved AS (
            SELECT budget_id, start, sum(held) AS held, sum(posted) AS posted
            FROM window_move GROUP BY 1, 2
        )
        SELECT format('budget %s, window %s', budget_id, start) AS row,
               format('it says %s posted and %s held, its entries say %s and %s',
                      coalesce(w.posted, 0), coalesce(w.held, 0),
                      coalesce(moved.posted, 0), coalesce(moved.held, 0)) AS problem
        FROM (SELECT budget_id, start, sum(posted) AS posted, sum(held) AS held
              FROM budget_window WHERE tenant = :tenant GROUP BY 1, 2) w
        FULL JOIN moved USING (budget_id, start)
        WHERE coalesce(w.posted, 0) <> coalesce(moved.posted, 0)
           OR coalesce(w.held, 0) <> coalesce(moved.held, 0)
        ORDER BY budget_id, start LIMIT 1
        """,  # noqa: S608  constants
    ),
    # A rolling window is the buckets of its length: each is left when it has passed it.
    _invariant(
        "I4",
        "no reservation ever passed the hard limit of its budget windows",
        f"""
        {WINDOW_MOVES}
        , moved AS (
            SELECT m.sequence, m.kind, m.budget_id, m.held + m.posted AS change, m.create_time,
                   CASE WHEN b.budget_window <> 'rolling' THEN m.start END AS start,
                   CASE WHEN b.budget_window = 'rolling'
                        THEN greatest(m.create_time, m.start) END AS counts_from,
                   m.start + make_interval(secs => b.rolling_length_s) + interval '1 minute'
                       AS counts_until
            FROM window_move m JOIN budget b ON b.tenant = :tenant AND b.id = m.budget_id
        ), event AS (
            SELECT sequence, kind, budget_id, change, start, counts_from AS at, create_time
            FROM moved WHERE counts_from IS NULL OR counts_from < counts_until
            UNION ALL
            SELECT 0, 'left', budget_id, -change, NULL, counts_until, NULL
            FROM moved WHERE counts_from < counts_until
        ), total AS (
            SELECT *, sum(change) OVER (PARTITION BY budget_id, start ORDER BY at, sequence)
                   AS used
            FROM event
        ), decided AS (
            -- By the newest version, without a look-up for every entry.
            SELECT sequence, budget_id, used, extract(epoch FROM create_time) AS at,
                   max(version) OVER (PARTITION BY budget_id ORDER BY sequence) AS version
            FROM (
                SELECT sequence, budget_id, used, create_time, NULL::numeric[] AS version FROM total
                WHERE kind = 'reserve' AND change > 0
                UNION ALL
                SELECT after_sequence + 1, budget_id, NULL, NULL,
                       ARRAY[version, hard_limit, raise_amount, extract(epoch FROM raise_until)]
                FROM budget_version WHERE tenant = :tenant
            ) entries_and_versions
        ), limited AS (
            SELECT *, version[2] + CASE WHEN at < version[4] THEN version[3] ELSE 0 END
                   AS hard_limit
            FROM decided
        )
        SELECT format('entry %s', sequence) AS row,
               format('budget %s stands at %s after it, above its limit of %s',
                      budget_id, used, hard_limit) AS problem
        FROM limited WHERE used > hard_limit ORDER BY sequence LIMIT 1
        """,  # noqa: S608  constants
    ),
    _invariant(
        "I5",
        "one operation and key has one entry, and the answer names it",
        """
        SELECT * FROM (
            SELECT format('%s %s', i.operation, i.key) AS row,
                   format('its answer names entry %s, which is %s', i.sequence,
                          coalesce('of ' || e.key, 'missing')) AS problem
            FROM (
                SELECT tenant, operation, key, sequence FROM idempotency
                UNION ALL SELECT tenant, 'reserve', key, reserve_sequence FROM hold
                UNION ALL SELECT tenant, 'capture', key, capture_sequence FROM hold
            ) i
            LEFT JOIN entry e ON (e.tenant, e.sequence) = (i.tenant, i.sequence)
            WHERE i.tenant = :tenant AND i.sequence > 0
              AND e.key IS DISTINCT FROM i.key
            ORDER BY i.sequence, i.operation, i.key LIMIT 1
        ) answers
        UNION ALL
        SELECT * FROM (
            SELECT format('%s %s', kind, key), format('it has %s entries', count(*))
            FROM entry e WHERE tenant = :tenant AND kind IN ('reserve', 'record') AND NOT EXISTS (
                SELECT FROM entry c
                WHERE c.tenant = :tenant AND c.corrects_sequence = e.sequence
                  AND c.corrects_sequence > 0 AND c.kind = 'settle'
            )
            GROUP BY kind, key HAVING count(*) > 1 ORDER BY min(sequence) LIMIT 1
        ) entries
        LIMIT 1
        """,
    ),
    _invariant(
        "I6",
        "every hold ends once: the journal holds for it what its state says",
        """
        WITH moved AS (
            SELECT key, sum(held) AS held FROM entry
            WHERE tenant = :tenant AND hold_unit <> '' GROUP BY key
        )
        SELECT format('hold %s', key) AS row,
               format('it is %s, the journal holds %s for it',
                      coalesce(h.state, 'missing'), coalesce(moved.held, 0)) AS problem
        FROM (SELECT * FROM hold WHERE tenant = :tenant) h FULL JOIN moved USING (key)
        WHERE coalesce(moved.held, 0)
              <> CASE h.state WHEN 'open' THEN coalesce(h.amount, 1) ELSE 0 END
        ORDER BY key LIMIT 1
        """,
    ),
    _invariant(
        "I7",
        "every capture comes after the reservation of its key",
        """
        SELECT format('entry %s', c.sequence) AS row,
               format('nothing was reserved for %s before it', c.key) AS problem
        FROM entry c
        WHERE c.tenant = :tenant AND c.kind = 'capture' AND NOT EXISTS (
            SELECT FROM hold h
            WHERE h.tenant = :tenant AND h.key = c.key AND h.reserve_sequence < c.sequence
        )
        ORDER BY c.sequence LIMIT 1
        """,
    ),
    _invariant(
        "I9",
        "sequences count from 1 to the head without a gap",
        """
        WITH numbered AS (
            SELECT sequence, row_number() OVER (ORDER BY sequence) AS place
            FROM entry WHERE tenant = :tenant
        ), head AS (
            SELECT coalesce((SELECT sequence FROM ledger_head WHERE tenant = :tenant), 0)
                AS sequence
        )
        SELECT * FROM (
            SELECT format('entry %s', place) AS row,
                   format('it is missing: entry %s stands in its place', sequence) AS problem
            FROM numbered WHERE sequence <> place ORDER BY place LIMIT 1
        ) gap
        UNION ALL
        SELECT format('head %s', head.sequence),
               format('the journal has %s entries', (SELECT count(*) FROM numbered))
        FROM head WHERE head.sequence <> (SELECT count(*) FROM numbered)
        LIMIT 1
        """,
    ),
    _invariant(
        "I10",
        "daily sums are those of the journal up to their watermark",
        """
        WITH mark AS (
            SELECT coalesce((SELECT sequence FROM rollup_watermark WHERE tenant = :tenant), 0)
                AS sequence
        ), summed AS (
            SELECT (occur_time AT TIME ZONE 'UTC')::date AS day, c.model, c.tool,
                   c.price_version_id, c.currency, sum(c.amount) AS amount, sum(c.calls) AS calls,
                   sum(c.unpriced_calls) AS unpriced_calls
            FROM charge c, mark WHERE c.tenant = :tenant AND c.sequence <= mark.sequence
            GROUP BY 1, 2, 3, 4, 5
        )
        SELECT format('sum of %s, model %s, tool %s', day, model, tool) AS row,
               format('it says %s %s for %s calls, the journal %s for %s', coalesce(r.amount, 0),
                      currency, coalesce(r.calls, 0), coalesce(s.amount, 0), coalesce(s.calls, 0))
                   AS problem
        FROM (SELECT * FROM rollup_day WHERE tenant = :tenant) r
        FULL JOIN summed s USING (day, model, tool, price_version_id, currency)
        WHERE (r.amount, r.calls, r.unpriced_calls)
              IS DISTINCT FROM (s.amount, s.calls, s.unpriced_calls)
        ORDER BY day, model, tool LIMIT 1
        """,
    ),
    _invariant(
        "I10 usage",
        "daily quantities are those of the journal up to their watermark",
        """
        WITH mark AS (
            SELECT coalesce((SELECT sequence FROM rollup_watermark WHERE tenant = :tenant), 0)
                AS sequence
        ), summed AS (
            SELECT (occur_time AT TIME ZONE 'UTC')::date AS day, c.model, c.tool,
                   c.price_version_id, c.currency, q.key AS dimension,
                   sum(sign(c.calls::numeric) * q.value::numeric) AS amount
            FROM charge c CROSS JOIN mark CROSS JOIN LATERAL jsonb_each_text(c.quantities) q
            WHERE c.tenant = :tenant AND c.sequence <= mark.sequence GROUP BY 1, 2, 3, 4, 5, 6
        ), kept AS (
            SELECT day, model, tool, price_version_id, currency, q.key AS dimension,
                   q.value::numeric AS amount
            FROM rollup_day r CROSS JOIN LATERAL jsonb_each_text(jsonb_strip_nulls(to_jsonb(r)
                - '{tenant,day,model,tool,price_version_id,currency,amount,calls,unpriced_calls}'
                  ::text[])) q
            WHERE tenant = :tenant
        )
        SELECT format('sum of %s, model %s, tool %s', day, model, tool) AS row,
               format('it says %s %s, the journal %s', coalesce(r.amount, 0), dimension,
                      coalesce(s.amount, 0)) AS problem
        FROM kept r
        FULL JOIN summed s USING (day, model, tool, price_version_id, currency, dimension)
        WHERE r.amount IS DISTINCT FROM s.amount ORDER BY day, model, tool LIMIT 1
        """,
    ),
    _invariant(
        "I11",
        "what the tenant spent is what its providers are owed",
        """
        SELECT format('balance in %s', unit) AS row,
               format('%s is spent or open and %s is owed',
                      spend + provisional + suspense, -payable) AS problem
        FROM balance
        WHERE tenant = :tenant AND spend + provisional + suspense <> -payable
        ORDER BY unit LIMIT 1
        """,
    ),
)


class InvariantStore:
    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def check(self, tenant: str, invariant: Invariant) -> Finding | None:
        async with tenant_transaction(self._engine, tenant) as connection:
            result = await connection.execute(invariant.query, {"tenant": tenant})
            row: Any = result.first()
        return Finding(invariant.rule, invariant.text, row.row, row.problem) if row else None
