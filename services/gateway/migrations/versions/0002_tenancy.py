"""Roles and use of API keys, limits of tenants, the audit log."""

from alembic import op

revision = "0002"
down_revision = "0001"

STATEMENTS = (
    "ALTER TABLE api_keys ADD COLUMN roles text[] NOT NULL DEFAULT '{}'",
    "ALTER TABLE api_keys ADD COLUMN last_used_time timestamptz",
    "ALTER TABLE api_keys ADD COLUMN successor_id text REFERENCES api_keys (id)",
    """
    CREATE TABLE tenant_limits (
        tenant text PRIMARY KEY,
        requests_per_s double precision NOT NULL,
        burst integer NOT NULL,
        concurrency integer NOT NULL
    )
    """,
    # Both are written all the time and lost without harm: a restart of PostgreSQL after a
    # crash refills the buckets.
    """
    CREATE UNLOGGED TABLE rate_bucket (
        tenant text PRIMARY KEY,
        tokens double precision NOT NULL,
        granted integer NOT NULL,
        refill_time timestamptz NOT NULL
    )
    """,
    """
    CREATE UNLOGGED TABLE concurrency_lease (
        tenant text NOT NULL,
        replica uuid NOT NULL,
        slots integer NOT NULL,
        expire_time timestamptz NOT NULL,
        PRIMARY KEY (tenant, replica)
    )
    """,
    # Grants a replica up to `wanted` more slots while all replicas together stay within
    # `total`; returns the slots it holds then.
    """
    CREATE FUNCTION take_slots(
        for_tenant text, by_replica uuid, wanted integer, total integer, lease_s double precision
    ) RETURNS integer LANGUAGE plpgsql AS $$
    DECLARE
        taken integer;
        held integer;
    BEGIN
        PERFORM pg_advisory_xact_lock(hashtextextended(for_tenant, 7263002));
        DELETE FROM concurrency_lease
            WHERE tenant = for_tenant AND expire_time < clock_timestamp() AND replica <> by_replica;
        SELECT coalesce(sum(slots), 0) INTO taken FROM concurrency_lease WHERE tenant = for_tenant;
        INSERT INTO concurrency_lease AS mine
            VALUES (for_tenant, by_replica, least(wanted, greatest(total - taken, 0)),
                    clock_timestamp() + make_interval(secs => lease_s))
            ON CONFLICT (tenant, replica) DO UPDATE SET
                slots = mine.slots + excluded.slots, expire_time = excluded.expire_time
            RETURNING slots INTO held;
        RETURN held;
    END $$
    """,
    """
    CREATE TABLE audit_entry (
        id uuid PRIMARY KEY,
        tenant text NOT NULL,
        subject text NOT NULL,
        credential text NOT NULL,
        action text NOT NULL,
        resource text NOT NULL,
        request_id text NOT NULL,
        requested json NOT NULL,
        before json,
        time timestamptz NOT NULL DEFAULT clock_timestamp()
    )
    """,
    """
    CREATE TABLE audit_outcome (
        entry_id uuid PRIMARY KEY REFERENCES audit_entry (id),
        rejection text NOT NULL,
        after json,
        time timestamptz NOT NULL DEFAULT clock_timestamp()
    )
    """,
    "CREATE INDEX audit_entry_by_tenant ON audit_entry (tenant, id DESC)",
    """
    CREATE FUNCTION reject_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'the audit log is append-only';
    END $$
    """,
    *(
        f"""
        CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
        FOR EACH STATEMENT EXECUTE FUNCTION reject_change()
        """
        for table in ("audit_entry", "audit_outcome")
    ),
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    for table in (
        "audit_outcome",
        "audit_entry",
        "concurrency_lease",
        "rate_bucket",
        "tenant_limits",
    ):
        op.execute(f"DROP TABLE {table}")
    for function in ("reject_change", "take_slots"):
        op.execute(f"DROP FUNCTION {function}")
    for column in ("successor_id", "last_used_time", "roles"):
        op.execute(f"ALTER TABLE api_keys DROP COLUMN {column}")
