-- What callers said their own functions gave, until the episode's worker takes it into the step log.
CREATE TABLE client_results (
    episode_id uuid NOT NULL REFERENCES episodes,
    turn integer NOT NULL,
    results bytea NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (episode_id, turn)
);
