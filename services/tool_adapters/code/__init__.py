"""Tools of kind code."""
