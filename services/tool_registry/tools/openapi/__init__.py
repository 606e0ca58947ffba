"""OpenAPI 3 documents as tools: one operation, one tool of kind http."""
