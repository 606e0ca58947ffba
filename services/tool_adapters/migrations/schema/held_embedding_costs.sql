-- Money is held under the key before vectors are bought; what was not used gives it back.
ALTER TABLE embedding_costs
    ADD COLUMN held boolean NOT NULL DEFAULT false,
    ADD COLUMN unused boolean NOT NULL DEFAULT false;
