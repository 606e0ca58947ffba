-- Calls that a person decided on while others of their turn still wait.
CREATE TABLE approval_decisions (
    episode_id uuid NOT NULL REFERENCES episodes,
    turn integer NOT NULL,
    call_index integer NOT NULL,
    PRIMARY KEY (episode_id, turn, call_index)
);
