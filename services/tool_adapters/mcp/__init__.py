"""Tools of kind mcp."""
