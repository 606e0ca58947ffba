-- Agents, whose budgets a key is charged to; and who had the text of a key besides its subject.
ALTER TABLE api_keys ADD COLUMN agents text[] NOT NULL DEFAULT '{}';
ALTER TABLE api_keys ADD COLUMN creators text[] NOT NULL DEFAULT '{}';
