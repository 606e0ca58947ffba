-- Items of suites, under the SHA-256 of all of the suite: runs of one suite share them.
CREATE TABLE evaluation_items (
    tenant text NOT NULL,
    suite_digest bytea NOT NULL,
    place integer NOT NULL,
    id text NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (tenant, suite_digest, place)
);

-- Runs: a suite, who plays it, and how often.
CREATE TABLE evaluations (
    tenant text NOT NULL,
    id uuid NOT NULL,
    subject text NOT NULL,
    suite_digest bytea NOT NULL,
    spec bytea NOT NULL,
    state text NOT NULL DEFAULT 'running',
    reason text NOT NULL DEFAULT '',
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    end_time timestamptz,
    -- Of live traffic, whose episodes become items as they are started.
    is_live boolean NOT NULL DEFAULT false,
    item_count integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX evaluations_live ON evaluations (tenant, id) WHERE is_live AND state = 'running';
CREATE INDEX evaluations_by_suite ON evaluations (tenant, suite_digest);

-- What a run plans, and what became of it: the transaction that ends a trial's episode writes all but its plan, and
-- what the environment of a conversation adds. It outlives the episode, which retention may delete.
CREATE TABLE evaluation_trials (
    tenant text NOT NULL,
    evaluation_id uuid NOT NULL,
    place integer NOT NULL,
    arm text NOT NULL,
    item_place integer NOT NULL,
    repeat integer NOT NULL,
    episode_id uuid NOT NULL UNIQUE,
    end_time timestamptz,
    stop_reason text,
    score double precision,
    explanation text NOT NULL DEFAULT '',
    cost numeric(28, 12),
    orchestrator_cost numeric(28, 12),
    judge_cost numeric(28, 12),
    currency text,
    unpriced_call_count integer NOT NULL DEFAULT 0,
    latency_s double precision,
    turn_count integer NOT NULL DEFAULT 0,
    tool_call_count integer NOT NULL DEFAULT 0,
    call_counts jsonb NOT NULL DEFAULT '{}',
    -- The environment of a conversation judges it, once its episode has ended.
    awaits_verdict boolean NOT NULL DEFAULT false,
    simulator_cost numeric(28, 12),
    -- Of the models that its check asked: an array of judge, score or null, explanation, cost and currency.
    votes jsonb NOT NULL DEFAULT '[]',
    PRIMARY KEY (tenant, evaluation_id, place),
    FOREIGN KEY (tenant, evaluation_id) REFERENCES evaluations ON DELETE CASCADE
);

-- Verdicts of other judges than a trial's own check, each asked once.
CREATE TABLE evaluation_verdicts (
    tenant text NOT NULL,
    evaluation_id uuid NOT NULL,
    place integer NOT NULL,
    judge text NOT NULL,
    prompt_digest text NOT NULL,
    verifier text NOT NULL,
    verifier_version text NOT NULL,
    score double precision,
    explanation text NOT NULL,
    call_id text NOT NULL,
    cost numeric(28, 12),
    currency text,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, evaluation_id, place, judge, prompt_digest),
    FOREIGN KEY (tenant, evaluation_id, place) REFERENCES evaluation_trials ON DELETE CASCADE
);

-- Figures that `podium eval report` computed of a run: a JSON object.
CREATE TABLE evaluation_reports (
    tenant text NOT NULL,
    evaluation_id uuid NOT NULL,
    report text NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, evaluation_id),
    FOREIGN KEY (tenant, evaluation_id) REFERENCES evaluations ON DELETE CASCADE
);

-- How judges did on answers that people had labelled: counts, and no answer.
CREATE TABLE judge_calibrations (
    tenant text NOT NULL,
    id uuid NOT NULL,
    subject text NOT NULL,
    body bytea NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, id)
);
