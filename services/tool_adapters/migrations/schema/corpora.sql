-- The owner is a tenant; the empty owner is the platform, whose corpora every tenant may search.
-- Versions start at the clock, so that a corpus that is deleted and created again never meets a
-- cached index of the deleted one.
CREATE TABLE corpora (
    owner text NOT NULL,
    name text NOT NULL,
    version bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    -- Of texts and vectors, as of the last change of the corpus.
    bytes bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (owner, name)
);

CREATE TABLE documents (
    owner text NOT NULL,
    corpus text NOT NULL,
    id text NOT NULL,
    title text NOT NULL,
    uri text NOT NULL,
    digest text NOT NULL,
    media_type text NOT NULL DEFAULT 'text/plain',
    -- The model of the passages' vectors; empty means that there are none.
    embedding_model text NOT NULL DEFAULT '',
    PRIMARY KEY (owner, corpus, id),
    FOREIGN KEY (owner, corpus) REFERENCES corpora (owner, name) ON DELETE CASCADE
);

CREATE TABLE passages (
    owner text NOT NULL,
    corpus text NOT NULL,
    document_id text NOT NULL,
    ordinal integer NOT NULL,
    content text NOT NULL,
    section text NOT NULL DEFAULT '',
    page integer NOT NULL DEFAULT 0,
    first integer NOT NULL DEFAULT 0,
    after integer NOT NULL DEFAULT 0,
    -- Little-endian float32, normalised; read as a whole, so no extension is needed.
    vector bytea NOT NULL DEFAULT '',
    PRIMARY KEY (owner, corpus, document_id, ordinal),
    FOREIGN KEY (owner, corpus, document_id)
        REFERENCES documents (owner, corpus, id) ON DELETE CASCADE
);
