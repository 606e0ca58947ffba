-- Teams, which policies bind; and the first of the keys that rotations put in each other's place.
ALTER TABLE api_keys ADD COLUMN teams text[] NOT NULL DEFAULT '{}';
ALTER TABLE api_keys ADD COLUMN origin_id text;
WITH RECURSIVE line AS (
    SELECT id, id AS origin_id, successor_id FROM api_keys k
    WHERE NOT EXISTS (SELECT FROM api_keys WHERE successor_id = k.id)
    UNION ALL
    SELECT k.id, line.origin_id, k.successor_id FROM line JOIN api_keys k ON k.id = line.successor_id
)
UPDATE api_keys SET origin_id = line.origin_id FROM line WHERE line.id = api_keys.id;
