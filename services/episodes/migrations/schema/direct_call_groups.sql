-- Teams, agents, roles and key of the caller: budgets are charged for them, policies bind them.
ALTER TABLE direct_calls ADD COLUMN groups text[] NOT NULL DEFAULT '{}';
