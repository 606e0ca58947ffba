"""Tools and their immutable versions: registration, schemas, search, OpenAPI import."""
