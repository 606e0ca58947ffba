"""Tools of kind http."""
