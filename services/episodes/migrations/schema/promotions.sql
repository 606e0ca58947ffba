-- Versions of the orchestrator that users were seen to get, so that each change is told once.
CREATE TABLE promotions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    version text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp()
);
