-- Of texts and vectors, as of the last change of the corpus.
ALTER TABLE corpora ADD COLUMN bytes bigint NOT NULL DEFAULT 0;
UPDATE corpora SET bytes = (
    SELECT coalesce(sum(octet_length(content) + octet_length(section) + octet_length(vector)), 0)
    FROM passages p WHERE (p.owner, p.corpus) = (corpora.owner, corpora.name)
);
