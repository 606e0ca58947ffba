CREATE TABLE invoice (
    tenant text NOT NULL,
    id text NOT NULL,
    provider text NOT NULL,
    month text NOT NULL,
    create_time timestamptz NOT NULL,
    reconcile_time timestamptz,
    PRIMARY KEY (tenant, id)
);

-- The amount keeps the decimals it was written with: they say how the provider rounds.
CREATE TABLE invoice_line (
    tenant text NOT NULL,
    invoice_id text NOT NULL,
    position bigint NOT NULL CHECK (position > 0),
    provider_request_id text NOT NULL,
    sku text NOT NULL,
    occur_time timestamptz NOT NULL,
    amount numeric NOT NULL,
    currency text NOT NULL,
    PRIMARY KEY (tenant, invoice_id, position),
    FOREIGN KEY (tenant, invoice_id) REFERENCES invoice
);

CREATE TABLE invoice_match (
    tenant text NOT NULL,
    invoice_id text NOT NULL,
    ordinal bigint NOT NULL,
    state text NOT NULL,
    position bigint,
    sequence bigint,
    PRIMARY KEY (tenant, invoice_id, ordinal),
    FOREIGN KEY (tenant, invoice_id) REFERENCES invoice,
    CHECK (position IS NOT NULL OR sequence IS NOT NULL)
);

SELECT protect('invoice');
SELECT protect('invoice_line');
SELECT protect('invoice_match');
SELECT make_immutable('invoice_line');

GRANT SELECT, INSERT ON invoice_line TO cost_ledger_service;
GRANT SELECT, INSERT, UPDATE ON invoice TO cost_ledger_service;
GRANT SELECT, INSERT, DELETE ON invoice_match TO cost_ledger_service;
