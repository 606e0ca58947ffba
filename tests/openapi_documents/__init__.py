"""OpenAPI documents as they are published, read as `podium tools import-openapi` does."""
