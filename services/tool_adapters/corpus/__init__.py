"""Documents that tools of kind retrieval search: stored in PostgreSQL, found by BM25."""
