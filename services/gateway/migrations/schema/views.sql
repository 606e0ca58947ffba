-- Filters of the console's list of episodes, by the name that a person gave them.
CREATE TABLE saved_views (
    tenant text NOT NULL,
    id uuid NOT NULL,
    subject text NOT NULL,
    -- Whether everybody in the tenant sees it.
    shared boolean NOT NULL,
    name text NOT NULL,
    query text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, id)
);
CREATE INDEX saved_views_by_subject ON saved_views (tenant, subject);
