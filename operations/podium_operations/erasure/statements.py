"""Deletions by database, in the order that references allow."""

from episodes.episodes.store_retention import UNREFERENCED
from episodes.keys import record_id

# Parameters of all: :tenant, and :subject, NULL for the whole tenant.

UNFINISHED = """
    SELECT count(*) FROM episodes
    WHERE tenant = :tenant AND stop_reason IS NULL
        AND (CAST(:subject AS text) IS NULL OR subject = :subject)
"""
# What keys of effects begin with.
IDS = """
    SELECT id FROM episodes WHERE tenant = :tenant
        AND (CAST(:subject AS text) IS NULL OR subject = :subject)
    UNION ALL SELECT id FROM direct_calls WHERE tenant = :tenant
        AND (CAST(:subject AS text) IS NULL OR subject = :subject)
"""
# Temporary tables of the transaction: episodes, ratings of others' episodes, bodies of both.
GONE = """
    CREATE TEMPORARY TABLE gone ON COMMIT DROP AS
    SELECT id, group_id FROM episodes
    WHERE tenant = :tenant
        AND (CAST(:subject AS text) IS NULL OR subject = :subject)
"""
GONE_RECORDS = """
    CREATE TEMPORARY TABLE gone_records ON COMMIT DROP AS
    SELECT o.id, o.digest FROM outbox o WHERE o.tenant = :tenant AND (
        o.episode_id IN (SELECT id FROM gone)
        OR (o.episode_id IS NULL AND o.group_id IN (SELECT group_id FROM gone) AND NOT EXISTS (
            SELECT FROM episodes e WHERE e.tenant = :tenant AND e.group_id = o.group_id
                AND e.id NOT IN (SELECT id FROM gone)))
        OR o.record_id IN (
            SELECT format(:feedback_record, f.episode_id, f.id) FROM feedback f
            JOIN episodes e ON e.id = f.episode_id
            WHERE e.tenant = :tenant AND f.created_by = :subject))
"""
GONE_BODIES = """
    CREATE TEMPORARY TABLE gone_bodies ON COMMIT DROP AS
    SELECT digest FROM gone_records
    UNION SELECT digest FROM steps WHERE episode_id IN (SELECT id FROM gone)
    UNION SELECT toolset_digest FROM episodes WHERE id IN (SELECT id FROM gone)
"""
OF_GONE_BODIES = "DELETE FROM segments s WHERE s.digest IN (SELECT digest FROM gone_bodies) AND"
FEEDBACK_RECORD = record_id("feedback", "%s/%s")

EPISODES = {
    "feedback": """
        DELETE FROM feedback f USING episodes e WHERE e.id = f.episode_id AND e.tenant = :tenant
            AND (f.episode_id IN (SELECT id FROM gone) OR f.created_by = :subject)
    """,
    "client_results": "DELETE FROM client_results WHERE episode_id IN (SELECT id FROM gone)",
    "approval_decisions": """
        DELETE FROM approval_decisions WHERE episode_id IN (SELECT id FROM gone)
    """,
    "steps": "DELETE FROM steps WHERE episode_id IN (SELECT id FROM gone)",
    "outbox": "DELETE FROM outbox WHERE id IN (SELECT id FROM gone_records)",
    "webhook_deliveries": """
        DELETE FROM webhook_deliveries
        WHERE tenant = :tenant AND (CAST(:subject AS text) IS NULL OR substring(
            message_id FROM '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}'
        ) IN (SELECT id::text FROM gone))
    """,
    "tenant_events": """
        DELETE FROM tenant_events
        WHERE tenant = :tenant AND (CAST(:subject AS text) IS NULL OR substring(
            message_id FROM '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}'
        ) IN (SELECT id::text FROM gone))
    """,
    "attachments": """
        DELETE FROM attachments WHERE tenant = :tenant AND (CAST(:subject AS text) IS NULL
            OR owner_id IN (SELECT id FROM gone UNION ALL SELECT id FROM direct_calls
                WHERE tenant = :tenant AND subject = :subject))
    """,
    # Trials and reports of another person's run quote the episodes' answers in explanations.
    "evaluation_reports": """
        DELETE FROM evaluation_reports r USING evaluation_trials t
        WHERE t.tenant = r.tenant AND t.evaluation_id = r.evaluation_id
        AND t.episode_id IN (SELECT id FROM gone)
    """,
    "evaluation_trials": """
        DELETE FROM evaluation_trials WHERE episode_id IN (SELECT id FROM gone)
    """,
    "evaluations": """
        DELETE FROM evaluations WHERE tenant = :tenant
        AND (CAST(:subject AS text) IS NULL OR subject = :subject)
    """,
    "evaluation_items": """
        DELETE FROM evaluation_items i WHERE i.tenant = :tenant AND NOT EXISTS (
            SELECT FROM evaluations v
            WHERE v.tenant = i.tenant AND v.suite_digest = i.suite_digest)
    """,
    "judge_calibrations": """
        DELETE FROM judge_calibrations WHERE tenant = :tenant
        AND (CAST(:subject AS text) IS NULL OR subject = :subject)
    """,
    "direct_calls": """
        DELETE FROM direct_calls
        WHERE tenant = :tenant
        AND (CAST(:subject AS text) IS NULL OR subject = :subject)
    """,
    "episodes": "DELETE FROM episodes WHERE id IN (SELECT id FROM gone)",
    "segments": f"{OF_GONE_BODIES} {UNREFERENCED}",
}
GATEWAY = {
    "api_keys": """
        DELETE FROM api_keys WHERE tenant = :tenant
        AND (CAST(:subject AS text) IS NULL OR subject = :subject)
    """,
    "saved_views": """
        DELETE FROM saved_views WHERE tenant = :tenant
        AND (CAST(:subject AS text) IS NULL OR subject = :subject)
    """,
    "console_sessions": """
        DELETE FROM console_sessions WHERE tenant = :tenant
        AND (CAST(:subject AS text) IS NULL OR subject = :subject)
    """,
    "idempotency_keys": """
        DELETE FROM idempotency_keys WHERE tenant = :tenant
            AND (CAST(:subject AS text) IS NULL OR episode_id = ANY(CAST(:episode_ids AS uuid[])))
    """,
}
ADAPTERS = {
    "secrets": """
        DELETE FROM secrets WHERE tenant = :tenant
        AND (CAST(:subject AS text) IS NULL OR subject = :subject)
    """,
    "effects": """
        DELETE FROM effects WHERE tenant = :tenant AND (CAST(:subject AS text) IS NULL
            OR split_part(key, '/', 1) = ANY(CAST(:episode_ids AS text[])))
    """,
    "adapter_costs": """
        DELETE FROM adapter_costs WHERE tenant = :tenant
        AND (CAST(:subject AS text) IS NULL OR subject = :subject)
    """,
    "response_cache": """
        DELETE FROM response_cache WHERE tenant = :tenant
        AND (CAST(:subject AS text) IS NULL OR subject = :subject)
    """,
    "workspaces": """
        DELETE FROM workspaces WHERE tenant = :tenant AND (CAST(:subject AS text) IS NULL
            OR episode_id = ANY(CAST(:episode_ids AS text[])))
    """,
    "workspace_blobs": """
        DELETE FROM workspace_blobs b WHERE b.tenant = :tenant AND NOT EXISTS (
            SELECT FROM workspace_pieces p WHERE p.tenant = b.tenant AND p.digest = b.digest)
    """,
}
REGISTRY = {
    "policy_bindings": """
        DELETE FROM policy_bindings WHERE tenant = :tenant
        AND (CAST(:subject AS text) IS NULL OR principal = 'user:' || :subject)
    """,
    "description_proposals": """
        DELETE FROM description_proposals WHERE tenant = :tenant AND (CAST(:subject AS text) IS NULL
            OR episode_ids && CAST(:episode_ids AS text[]))
    """,
}
# Keys first: who has none left writes nothing new.
DELETED = {
    "gateway": GATEWAY,
    "episodes": EPISODES,
    "tool_adapters": ADAPTERS,
    "tool_registry": REGISTRY,
}
# What no user of the tenant owns alone.
OF_TENANT = {
    "gateway": {"tenant_limits": "DELETE FROM tenant_limits WHERE tenant = :tenant"},
    "episodes": {"webhooks": "DELETE FROM webhooks WHERE tenant = :tenant"},
    "tool_adapters": {
        "corpora": "DELETE FROM corpora WHERE owner = :tenant",
        "bought_vectors": "DELETE FROM bought_vectors WHERE tenant = :tenant",
        "learnt_parameters": "DELETE FROM learnt_parameters WHERE owner = :tenant",
        "followed_servers": "DELETE FROM followed_servers WHERE owner = :tenant",
    },
    "tool_registry": {
        "tool_facts": "DELETE FROM tool_facts WHERE :tenant IN (owner, tenant)",
        "followed_tools": "DELETE FROM followed_tools WHERE owner = :tenant",
        "tools": "DELETE FROM tools WHERE owner = :tenant",
        "policy_activations": "DELETE FROM policy_activations WHERE tenant = :tenant",
        "policies": "DELETE FROM policies WHERE tenant = :tenant",
        "learning_steps": "DELETE FROM learning_steps WHERE tenant = :tenant",
        # Readers keep what they have while it stands still.
        "catalogue_version": "UPDATE catalogue_version SET version = version + 1",
    },
}

# Columns that name a tenant, and those that name a person, in whatever table there is.
TENANT_COLUMNS = ("tenant", "owner")
SUBJECT_COLUMNS = (
    *("subject", "user_id", "principal", "created_by", "updated_by", "reviewed_by", "allowed_by"),
)
COLUMNS = """
    SELECT c.relname AS table, a.attname AS column FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
        AND NOT c.relispartition AND a.attname = ANY(:names) ORDER BY 1, 2
"""
