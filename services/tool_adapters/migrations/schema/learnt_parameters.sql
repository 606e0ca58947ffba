-- Parameters that a model accepts, as learnt from rejections of requests with the owner's key: what
-- a provider rejects can depend on the account.
CREATE TABLE learnt_parameters (
    owner text NOT NULL,
    url text NOT NULL,
    model text NOT NULL,
    output_cap text NOT NULL,
    caps_tried text[] NOT NULL,
    without text[] NOT NULL,
    learn_time timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (owner, url, model)
);
