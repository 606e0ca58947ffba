"""Tools of kind retrieval."""
