"""Episodes, their step log, content-addressed segments and the outbox."""

from alembic import op

revision = "0001"
down_revision = None

STATEMENTS = (
    """
    CREATE TABLE segments (
        digest bytea PRIMARY KEY,
        body bytea NOT NULL,
        create_time timestamptz NOT NULL DEFAULT now()
    )
    """,
    """
    CREATE TABLE episodes (
        id uuid PRIMARY KEY,
        tenant text NOT NULL,
        subject text NOT NULL,
        spec bytea NOT NULL,
        toolset_digest bytea NOT NULL REFERENCES segments,
        policy_name text NOT NULL,
        policy_version integer NOT NULL,
        labels jsonb NOT NULL,
        group_id text NOT NULL,
        group_size integer NOT NULL,
        sample_index integer NOT NULL,
        task_id text NOT NULL,
        turn_limit integer NOT NULL,
        time_limit_s double precision NOT NULL,
        create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
        stop_reason text,
        answer text NOT NULL DEFAULT '',
        failure bytea NOT NULL DEFAULT '',
        turn_count integer NOT NULL DEFAULT 0,
        tool_call_count integer NOT NULL DEFAULT 0,
        cost numeric(28, 12),
        currency text,
        unpriced_call_count integer NOT NULL DEFAULT 0,
        usage bytea NOT NULL DEFAULT '',
        end_time timestamptz,
        UNIQUE (tenant, group_id, sample_index)
    )
    """,
    "CREATE INDEX episodes_by_tenant ON episodes (tenant, id DESC)",
    "CREATE INDEX episodes_open ON episodes (create_time) WHERE stop_reason IS NULL",
    """
    CREATE TABLE steps (
        episode_id uuid NOT NULL REFERENCES episodes,
        sequence integer NOT NULL,
        turn integer NOT NULL,
        kind text NOT NULL,
        call_index integer NOT NULL,
        digest bytea NOT NULL REFERENCES segments,
        settled boolean NOT NULL DEFAULT false,
        cost numeric(28, 12),
        currency text,
        create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
        PRIMARY KEY (episode_id, sequence),
        UNIQUE (episode_id, turn, kind, call_index)
    )
    """,
    """
    CREATE TABLE outbox (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        record_id text NOT NULL UNIQUE,
        kind text NOT NULL,
        tenant text NOT NULL,
        group_id text NOT NULL,
        episode_id uuid,
        digest bytea NOT NULL REFERENCES segments,
        headers jsonb NOT NULL,
        create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
        publish_time timestamptz,
        partition_number integer,
        record_offset bigint,
        confirm_time timestamptz,
        dead_letter_reason text
    )
    """,
    "CREATE INDEX outbox_owed ON outbox (id) WHERE publish_time IS NULL",
    "CREATE INDEX outbox_unconfirmed ON outbox (id)"
    " WHERE publish_time IS NOT NULL AND confirm_time IS NULL",
    "CREATE INDEX outbox_members ON outbox (tenant, group_id) WHERE kind = 'trajectory'",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    for table in ("outbox", "steps", "episodes", "segments"):
        op.execute(f"DROP TABLE {table}")
