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
-- Room for the cost, which is written once, soon after the step, and then touches no index.
) WITH (fillfactor = 70);
CREATE INDEX steps_approvals ON steps (episode_id) WHERE kind = 'approval';
CREATE INDEX steps_by_digest ON steps (digest);
