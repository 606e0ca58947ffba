-- What was said of ended episodes.
CREATE TABLE feedback (
    episode_id uuid NOT NULL REFERENCES episodes,
    id text NOT NULL,
    score double precision,
    label text NOT NULL,
    comment text NOT NULL,
    created_by text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (episode_id, id)
);
