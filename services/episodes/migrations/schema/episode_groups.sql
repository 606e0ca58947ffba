-- What policies bind an episode's subject by, besides its name.
ALTER TABLE episodes ADD COLUMN groups text[] NOT NULL DEFAULT '{}';
