-- The most tokens that a model reads of a PDF file: 0 where they cannot be found out, NULL before it is measured.
ALTER TABLE attachments ADD COLUMN tokens bigint;
