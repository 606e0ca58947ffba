"""Policy versions: admission, routing, promotion."""
